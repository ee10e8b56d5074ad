"""Chunk key encodings: conformance, exactness, refusals and the registry."""

import importlib.metadata
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zarrfuse.errors import MetadataError
from zarrfuse.spec import chunk_keys
from zarrfuse.spec.chunk_keys import (
    ChunkKeyEncoding,
    DefaultEncoding,
    SuffixEncoding,
    V2Encoding,
    parse_chunk_key_encoding,
    sample_keys,
)

VECTORS = json.loads((Path(__file__).parent / "conformance" / "chunk_keys.json").read_text())


@pytest.mark.parametrize("case", VECTORS["cases"], ids=lambda case: case["key"])
def test_coordinates_and_key_give_each_other_back(case: dict[str, Any]) -> None:
    encoding = parse_chunk_key_encoding(case["encoding"])
    coords = tuple(case["coords"])
    assert encoding.encode(coords) == case["key"]
    assert encoding.decode(case["key"], len(coords)) == coords


@pytest.mark.parametrize("case", VECTORS["cases"], ids=lambda case: case["key"])
def test_what_is_written_reads_back_as_the_same_encoding(case: dict[str, Any]) -> None:
    encoding = parse_chunk_key_encoding(case["encoding"])
    assert parse_chunk_key_encoding(encoding.to_json()) == encoding


@pytest.mark.parametrize(
    ("encoding", "ndim", "key"),
    [(case["encoding"], case["ndim"], key) for case in VECTORS["not_keys"] for key in case["keys"]],
)
def test_other_keys_decode_to_nothing(encoding: Any, ndim: int, key: str) -> None:
    assert parse_chunk_key_encoding(encoding).decode(key, ndim) is None


@pytest.mark.parametrize("case", VECTORS["invalid"], ids=json.dumps)
def test_a_refused_encoding_names_the_member(case: dict[str, Any]) -> None:
    with pytest.raises(MetadataError, match=r"^chunk_key_encoding: ") as caught:
        parse_chunk_key_encoding(case["encoding"])
    assert case["member"] in str(caught.value)


@pytest.mark.parametrize(
    ("encoding", "message"),
    [
        (
            {"name": "suffix", "configuration": {"suffix": ""}},
            "chunk_key_encoding: configuration: suffix: must not be empty",
        ),
        (
            {
                "name": "suffix",
                "configuration": {
                    "suffix": ".a",
                    "base_encoding": {"name": "v2", "configuration": {"separator": "-"}},
                },
            },
            "chunk_key_encoding: configuration: base_encoding: configuration: "
            "separator: must be '/' or '.', not '-'",
        ),
        (
            {"name": "default", "configuration": {"separator": "/", "pad": 3}},
            "chunk_key_encoding: configuration: 'pad': unknown member",
        ),
        (
            {"name": "default", "configuration": {"separator": None}},
            "chunk_key_encoding: configuration: separator: must be a string, not null",
        ),
    ],
)
def test_a_refusal_gives_the_whole_path_of_the_member(encoding: Any, message: str) -> None:
    with pytest.raises(MetadataError) as caught:
        parse_chunk_key_encoding(encoding)
    assert str(caught.value) == message


@pytest.mark.parametrize("suffix", ["/.zarray", "/.zgroup", "/a/", "/..", "a/./b", "/a//b"])
def test_a_suffix_that_breaks_a_path_is_refused(suffix: str) -> None:
    with pytest.raises(MetadataError, match="suffix"):
        SuffixEncoding(suffix)


@pytest.mark.parametrize("suffix", [".", "..", "...", "/zarr.json/x", "zarr.json", "0", " ", "\n"])
def test_a_suffix_that_only_looks_dangerous_is_taken(suffix: str) -> None:
    encoding = SuffixEncoding(suffix)
    assert encoding.decode(encoding.encode((1, 2)), 2) == (1, 2)


def test_a_metadata_name_put_together_by_two_suffixes_is_refused() -> None:
    with pytest.raises(MetadataError, match=r"'\.json' makes keys that end in zarr\.json"):
        SuffixEncoding(".json", SuffixEncoding("/zarr"))


def nested_suffixes(depth: int) -> Any:
    value: Any = "v2"
    for _ in range(depth - 1):
        value = {"name": "suffix", "configuration": {"suffix": "x", "base_encoding": value}}
    return value


def test_encodings_may_stand_in_one_another() -> None:
    assert parse_chunk_key_encoding(nested_suffixes(32)).encode((1, 2)) == "1.2" + "x" * 31


@pytest.mark.parametrize("depth", [33, 100_000])
def test_encodings_nested_too_deeply_are_refused(depth: int) -> None:
    with pytest.raises(MetadataError, match="is nested more than 32 deep"):
        parse_chunk_key_encoding(nested_suffixes(depth))


@pytest.mark.parametrize("digits", [641, 4301, 100_000])
@pytest.mark.parametrize("encoding", [DefaultEncoding(), V2Encoding("/"), SuffixEncoding(".t")])
def test_a_number_longer_than_python_converts_is_no_coordinate(
    encoding: ChunkKeyEncoding, digits: int
) -> None:
    key = encoding.encode((7, 7)).replace("7", "9" * digits)
    assert encoding.decode(key, 2) is None


def test_coordinates_beyond_64_bits_are_coordinates() -> None:
    coords = (2**63, 2**64, 10**300)
    assert DefaultEncoding().decode(DefaultEncoding().encode(coords), 3) == coords


# A suffix of keys that may be stored: no slash, so that any text will do but NUL and backslash.
SUFFIXES = st.text(
    st.characters(exclude_characters="/\\\0", exclude_categories=("Cs",)), min_size=1, max_size=6
) | st.sampled_from([".1", "0", "00", "/1", "/c/0", "/x.tiff"])
ENCODINGS = st.recursive(
    st.builds(DefaultEncoding, st.sampled_from("/."))
    | st.builds(V2Encoding, st.sampled_from("/.")),
    lambda base: st.builds(SuffixEncoding, SUFFIXES, base),
    max_leaves=4,
)
COORDS = st.lists(st.integers(0, 120) | st.integers(0), max_size=4).map(tuple)


@given(ENCODINGS, COORDS)
def test_any_coordinates_come_back_from_their_key(
    encoding: ChunkKeyEncoding, coords: tuple[int, ...]
) -> None:
    assert encoding.decode(encoding.encode(coords), len(coords)) == coords


@given(
    ENCODINGS,
    COORDS,
    st.integers(0, 30),
    st.sampled_from(["", "0", "1", "/", ".", "c", "+", " ", "\n", "_", "\uff11", "-"]),
    st.booleans(),
)
def test_a_key_that_decodes_is_the_key_of_what_it_decodes_to(
    encoding: ChunkKeyEncoding, coords: tuple[int, ...], at: int, text: str, replace: bool
) -> None:
    key = encoding.encode(coords)
    key = key[:at] + text + key[at + replace :]
    for ndim in range(5):
        found = encoding.decode(key, ndim)
        assert found is None or (len(found) == ndim and encoding.encode(found) == key)


@given(ENCODINGS, st.text(), st.integers(0, 5))
def test_any_text_decodes_exactly_or_to_nothing(
    encoding: ChunkKeyEncoding, key: str, ndim: int
) -> None:
    found = encoding.decode(key, ndim)
    assert found is None or encoding.encode(found) == key


# -- the registry


class ReversedEncoding:
    """A third-party encoding: the numbers from last to first, `r/2/1`."""

    name = "test.reversed"

    @classmethod
    def from_configuration(cls, configuration: Mapping[str, Any]) -> "ReversedEncoding":
        if configuration:
            raise MetadataError("depth: is not for this encoding")
        return cls()

    def encode(self, coords: tuple[int, ...]) -> str:
        return "r" + "".join(f"/{c}" for c in reversed(coords))

    def decode(self, key: str, ndim: int) -> tuple[int, ...] | None:
        coords = DefaultEncoding().decode("c" + key[1:], ndim)
        return None if coords is None or key[0] != "r" else coords[::-1]

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name}


class BrokenEncoding(ReversedEncoding):
    name = "test.broken"

    @classmethod
    def from_configuration(cls, configuration: Mapping[str, Any]) -> "BrokenEncoding":
        raise KeyError("separator")

    def encode(self, coords: tuple[int, ...]) -> str:
        raise ValueError("only for planes")


@pytest.fixture
def plug_ins(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Entry points of other packages; gives the groups that were asked for."""
    asked = []

    def entry_points(*, group: str) -> list[EntryPoint]:
        asked.append(group)
        return [
            EntryPoint("default", f"{__name__}:ReversedEncoding", group),
            EntryPoint("test.reversed", f"{__name__}:ReversedEncoding", group),
            EntryPoint("test.broken", f"{__name__}:BrokenEncoding", group),
            EntryPoint("test.absent", "no_such_package_anywhere:Encoding", group),
            EntryPoint("test.empty", f"{__name__}:NO_SUCH_NAME", group),
        ]

    monkeypatch.setattr(importlib.metadata, "entry_points", entry_points)
    chunk_keys.ENCODINGS.forget()
    yield asked
    chunk_keys.ENCODINGS.forget()


def test_an_encoding_from_an_entry_point_is_found(plug_ins: list[str]) -> None:
    encoding = parse_chunk_key_encoding("test.reversed")
    assert encoding.encode((1, 2)) == "r/2/1"
    assert plug_ins == ["zarrfuse.chunk_key_encodings"]


def test_an_encoding_from_an_entry_point_can_be_a_base(plug_ins: list[str]) -> None:
    configuration = {"suffix": ".tiff", "base_encoding": "test.reversed"}
    encoding = parse_chunk_key_encoding({"name": "suffix", "configuration": configuration})
    assert encoding.encode((1, 2)) == "r/2/1.tiff"
    assert encoding.decode("r/2/1.tiff", 2) == (1, 2)


def test_entry_points_are_looked_up_once(plug_ins: list[str]) -> None:
    for name in ("test.reversed", "test.reversed", "nope", "nope"):
        try:
            parse_chunk_key_encoding(name)
        except MetadataError:
            assert name == "nope"
    assert len(plug_ins) == 1


def test_a_built_in_encoding_cannot_be_replaced(plug_ins: list[str]) -> None:
    assert parse_chunk_key_encoding("default") == DefaultEncoding()
    assert plug_ins == []


@pytest.mark.parametrize("name", ["test.absent", "test.broken", "test.empty"])
def test_an_entry_point_that_fails_is_named(plug_ins: list[str], name: str) -> None:
    with pytest.raises(MetadataError, match=f"^chunk_key_encoding: name: '{name}' is installed"):
        parse_chunk_key_encoding(name)


def test_a_refusal_of_an_entry_point_reads_like_one_of_ours(plug_ins: list[str]) -> None:
    with pytest.raises(MetadataError, match=r"^chunk_key_encoding: configuration: depth: is not"):
        parse_chunk_key_encoding({"name": "test.reversed", "configuration": {"depth": 1}})


def test_an_encoding_that_has_no_keys_for_an_array_is_refused() -> None:
    with pytest.raises(MetadataError, match=r"test\.broken has no key for 3 dimensions: only for"):
        sample_keys(BrokenEncoding(), 3)


def test_the_package_declares_its_encodings() -> None:
    pyproject = Path(__file__).parents[2] / "pyproject.toml"
    text = pyproject.read_text()
    for encoding in (DefaultEncoding, V2Encoding, SuffixEncoding):
        assert f'{encoding.name} = "{encoding.__module__}:{encoding.__name__}"' in text


def test_built_in_encodings_do_without_importlib_metadata() -> None:
    program = """
import sys
from zarrfuse.spec.chunk_keys import parse_chunk_key_encoding
for name in ("default", "v2"):
    parse_chunk_key_encoding({"name": "suffix",
        "configuration": {"suffix": ".t", "base_encoding": name}})
sys.exit("importlib.metadata" in sys.modules)
"""
    subprocess.run([sys.executable, "-c", program], check=True, cwd=Path(__file__).parents[2])
