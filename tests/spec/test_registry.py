"""Which class a name stands for: ours, an installed one, or one that goes by several names."""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import pytest
from builders.documents import array
from builders.plug_ins import Install, installing
from hypothesis import given
from hypothesis import strategies as st

from zarrfuse.errors import MetadataError
from zarrfuse.spec.active import EXTENSIONS
from zarrfuse.spec.chunk_keys import ENCODINGS, DefaultEncoding, parse_chunk_key_encoding
from zarrfuse.spec.concat_parts import ConcatParts, Part
from zarrfuse.spec.extensions import GenericExtension
from zarrfuse.spec.members import refuse_unknown
from zarrfuse.spec.node import ArrayNode, NodeError
from zarrfuse.spec.node_v3 import parse_v3
from zarrfuse.spec.transformers import TRANSFORMERS
from zarrfuse.spec.zep10 import BUILT_IN, Offset, ParentReference

REPOSITORY = Path(__file__).parents[2]
KEYS, PARTS, GENERIC = (registry.group for registry in (ENCODINGS, TRANSFORMERS, EXTENSIONS))


@dataclass(frozen=True)
class Spiral(DefaultEncoding):
    """An encoding that began as a URI and has got a raw name since."""

    name: ClassVar[str] = "test.spiral"
    aliases: ClassVar[tuple[str, ...]] = ("https://example.com/spiral", "test.whorl")

    @classmethod
    def from_configuration(cls, configuration: Mapping[str, Any]) -> Self:
        return cls()

    def encode(self, coords: Sequence[int]) -> str:
        return "s" + super().encode(coords)[1:]


@dataclass(frozen=True)
class Whorl(DefaultEncoding):
    """Another one that says it is the same."""

    name: ClassVar[str] = "test.other"
    aliases: ClassVar[tuple[str, ...]] = ("test.whorl",)


class Thief(DefaultEncoding):
    """Says that it is one of ours."""

    name: ClassVar[str] = "test.thief"
    aliases: ClassVar[tuple[str, ...]] = ("default", "suffix")


class OneAlias(GenericExtension):
    """Forgot the comma behind its one alias."""

    name: ClassVar[str] = "test.one"
    aliases: ClassVar[tuple[str, ...]] = "test.alias"  # type: ignore[assignment]


class Loner(GenericExtension):
    """An extension under a URI, whose entry point is called otherwise."""

    name: ClassVar[str] = "https://example.com/loner"


class Checksummed(ConcatParts):
    """A transformer that is a `concat-parts` with fixed parts."""

    name: ClassVar[str] = "test.checksummed"
    aliases: ClassVar[tuple[str, ...]] = ("https://example.com/checksummed",)

    @classmethod
    def from_configuration(cls, configuration: Mapping[str, Any]) -> Self:
        refuse_unknown(configuration, ())
        return cls((Part("", None), Part(".crc32c", 4)))


class Nothing(Checksummed):
    """A transformer that makes nothing."""

    name: ClassVar[str] = "test.nothing"

    @classmethod
    def from_configuration(cls, configuration: Mapping[str, Any]) -> Any:
        return None


class Quitter(Checksummed):
    """A transformer that ends the program."""

    name: ClassVar[str] = "test.quitter"

    @classmethod
    def from_configuration(cls, configuration: Mapping[str, Any]) -> Self:
        raise SystemExit("goodbye")


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    with installing(monkeypatch) as given_install:
        yield given_install


def suffixed(base: object) -> dict[str, Any]:
    return {"name": "suffix", "configuration": {"suffix": ".x", "base_encoding": base}}


@pytest.mark.parametrize("name", ["test.spiral", "https://example.com/spiral", "test.whorl"])
def test_a_name_and_its_aliases_are_one_encoding(install: Install, name: str) -> None:
    install(KEYS, {"test.spiral": Spiral})
    for value in (name, {"name": name}):
        assert parse_chunk_key_encoding(value) == Spiral()
        nested = parse_chunk_key_encoding(suffixed(suffixed(value)))
        assert nested.encode((1, 2)) == "s/1/2.x.x"
        assert parse_chunk_key_encoding(nested.to_json()) == nested


def test_an_alias_is_found_whatever_the_entry_point_is_called(install: Install) -> None:
    install(KEYS, {"whatever": Spiral})
    assert parse_chunk_key_encoding("test.whorl") == Spiral()
    assert parse_chunk_key_encoding("test.spiral") == Spiral()
    assert parse_chunk_key_encoding("whatever") == Spiral()


def test_all_entry_points_are_loaded_once_and_only_for_a_name_that_is_none(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = install(KEYS, {"test.spiral": Spiral, "test.absent": "no_such_package:Class"})
    parse_chunk_key_encoding("default")
    assert asked == []
    parse_chunk_key_encoding("test.spiral")
    assert ENCODINGS._by_alias is None
    for name in ("test.whorl", "nobody", "test.whorl", "nobody"):
        try:
            parse_chunk_key_encoding(name)
        except MetadataError:
            assert name == "nobody"
    assert asked == [KEYS]


def test_an_alias_of_two_is_refused_and_names_both(install: Install) -> None:
    install(KEYS, {"test.spiral": Spiral, "test.other": Whorl})
    with pytest.raises(MetadataError) as refused:
        parse_chunk_key_encoding("test.whorl")
    assert str(refused.value) == (
        "chunk_key_encoding: name: 'test.whorl' is an alias of several plug-ins: "
        "test.other and test.spiral"
    )


def test_a_class_installed_under_two_names_is_one(install: Install) -> None:
    install(KEYS, {"test.spiral": Spiral, "again": Spiral})
    assert parse_chunk_key_encoding("test.whorl") == Spiral()


def test_ours_cannot_be_replaced_by_an_alias(install: Install) -> None:
    install(KEYS, {"test.thief": Thief, "v2": Thief})
    assert type(parse_chunk_key_encoding("default")) is DefaultEncoding
    assert parse_chunk_key_encoding("v2").name == "v2"


def test_what_fails_to_load_is_refused_only_where_it_is_named(install: Install) -> None:
    install(KEYS, {"test.absent": "no_such_package:Class", "test.spiral": Spiral})
    assert parse_chunk_key_encoding("test.whorl") == Spiral()
    with pytest.raises(MetadataError, match=r"'test\.absent' is installed but fails: Mod"):
        parse_chunk_key_encoding("test.absent")
    with pytest.raises(MetadataError) as refused:
        parse_chunk_key_encoding("nobody")
    assert str(refused.value) == (
        "chunk_key_encoding: name: 'nobody' is not known here; installed but failing: 'test.absent'"
    )


def test_an_alias_that_is_no_tuple_is_a_fault_and_gives_no_names(install: Install) -> None:
    install(GENERIC, {"test.one": OneAlias, "loner": Loner})
    assert EXTENSIONS.find("t") is None
    assert EXTENSIONS.find("https://example.com/loner") is Loner


def test_what_is_no_extension_is_refused(install: Install) -> None:
    install(GENERIC, {"test.spiral": Spiral, "test.number": "math:pi"})
    for name, fault in (("test.spiral", "is not a GenericExtension"), ("test.number", "TypeErr")):
        with pytest.raises(NodeError, match=f"'{name}' is installed but fails: .*{fault}"):
            parse_v3(array(extensions=[name]))


# -- storage transformers


def parts_of(*transformers: object) -> list[str]:
    node = parse_v3(array(storage_transformers=list(transformers)))
    assert isinstance(node, ArrayNode)
    assert node.parts is not None
    return [leaf.key_suffix for leaf in node.parts.leaves]


@pytest.mark.parametrize("name", ["test.checksummed", "https://example.com/checksummed"])
def test_a_storage_transformer_that_is_installed_makes_parts(install: Install, name: str) -> None:
    install(PARTS, {"test.checksummed": Checksummed})
    assert parts_of(name) == ["", ".crc32c"]
    ours = {"name": "concat-parts", "configuration": {"parts": [{"key_suffix": ".p"}]}}
    assert parts_of(ours, {"name": name}) == [".p", ".p.crc32c"]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"name": "test.checksummed", "configuration": {"x": 1}}, "test.checksummed: 'x': unknown"),
        ("test.nothing", "name: test.nothing: from_configuration returns no ConcatParts"),
        ("test.quitter", "name: 'test.quitter' is installed but fails: SystemExit: goodbye"),
        ("test.absent", "name: 'test.absent' is installed but fails: ModuleNotFoundError"),
        ("test.encoding", "name: 'test.encoding' is installed but fails: TypeError"),
    ],
)
def test_a_storage_transformer_that_fails_is_named(
    install: Install, value: Any, message: str
) -> None:
    names = {"test.checksummed": Checksummed, "test.nothing": Nothing, "test.quitter": Quitter}
    install(PARTS, {**names, "test.absent": "no_such_package:C", "test.encoding": Spiral})
    with pytest.raises(NodeError) as refused:
        parse_v3(array(storage_transformers=[value]))
    assert str(refused.value).startswith(f"zarr.json: storage_transformers[0]: {message}")


# -- ours


def test_the_package_declares_its_extensions() -> None:
    text = (REPOSITORY / "pyproject.toml").read_text()
    for cls in BUILT_IN:
        assert f'"{cls.name}" = "{cls.__module__}:{cls.__name__}"' in text
    assert 'concat-parts = "zarrfuse.spec.concat_parts:ConcatParts"' in text


def test_the_parent_reference_has_the_uri_of_zep_9_and_the_offset_has_not() -> None:
    assert EXTENSIONS.find("https://zarr.dev/extensions/parent-ref") is ParentReference
    assert EXTENSIONS.find("example.offset") is Offset
    assert EXTENSIONS.find("https://example.com/zarr/offset") is None


def test_ours_do_without_importlib_metadata() -> None:
    document = array(
        extensions=["example.skip_empty_chunks"],
        storage_transformers=[
            {"name": "concat-parts", "configuration": {"parts": [{"key_suffix": ""}]}}
        ],
    )
    program = (
        "import sys; from zarrfuse.spec.node_v3 import parse_v3;"
        f"parse_v3({document!r}); sys.exit('importlib.metadata' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=REPOSITORY)


NAMES = st.from_regex(r"[a-z0-9._-]{1,12}", fullmatch=True) | st.from_regex(
    r"https://[a-z]{1,8}\.org/[a-z0-9/._-]{0,12}", fullmatch=True
)
OURS = {"default", "v2", "suffix"}


@given(
    names=st.lists(NAMES.filter(lambda name: name not in OURS), min_size=1, max_size=5, unique=True)
)
def test_any_names_of_one_class_are_that_class_wherever_they_stand(names: list[str]) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch, installing(monkeypatch) as install:
        monkeypatch.setattr(Whorl, "name", names[0])
        monkeypatch.setattr(Whorl, "aliases", tuple(names[1:]))
        install(KEYS, {names[0]: Whorl})
        plain = [parse_chunk_key_encoding(name) for name in names]
        nested = [parse_chunk_key_encoding(suffixed({"name": name})) for name in names]
    assert all(type(encoding) is Whorl for encoding in plain)
    assert len({json.dumps(encoding.to_json()) for encoding in nested}) == 1
