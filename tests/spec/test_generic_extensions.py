"""Generic extensions: what those of ZEP 10 say, and what becomes of those that others install."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Self

import pytest
from builders.documents import array, extension, group
from builders.nodes import refusal_of
from builders.plug_ins import Install, installing
from hypothesis import given
from hypothesis import strategies as st

from zarrfuse.errors import MetadataError
from zarrfuse.spec.active import EXTENSIONS, Active, below, joined
from zarrfuse.spec.extensions import GenericExtension
from zarrfuse.spec.node import ArrayNode, GroupNode, Node, NodeError
from zarrfuse.spec.node_v3 import parse_v3
from zarrfuse.spec.zep10 import (
    ArrayStatistics,
    MultiscaleArrays,
    Offset,
    SkipEmptyChunks,
    TieredStorage,
)


def array_with(*extensions: Any, shape: tuple[int, ...] = (4, 4)) -> ArrayNode:
    node = parse_v3(array(shape, extensions=list(extensions)))
    assert isinstance(node, ArrayNode)
    return node


def group_with(*extensions: Any) -> GroupNode:
    node = parse_v3(group(extensions=list(extensions)))
    assert isinstance(node, GroupNode)
    return node


# -- the examples of ZEP 10


@pytest.mark.parametrize("offset", [[12, 24], [0, 0], [-3, 2**70]])
def test_an_offset_is_the_origin(offset: list[int]) -> None:
    node = array_with(extension("example.offset", offset=offset))
    assert node.extension(Offset) == Offset(tuple(offset))
    assert node.facts()["origin"] == offset
    assert node.facts()["told_by"] == {"origin": "example.offset"}


def test_a_scalar_has_an_offset_of_no_numbers() -> None:
    assert array_with(extension("example.offset", offset=[]), shape=()).facts()["origin"] == []


def test_statistics_are_the_range_of_values() -> None:
    node = array_with(extension("example.array-statistics", min=-0.5, max=1023))
    assert node.extension(ArrayStatistics) == ArrayStatistics(-0.5, 1023)
    assert node.facts()["statistics"] == {"min": -0.5, "max": 1023}


def test_empty_chunks_are_not_written_where_the_metadata_says_so() -> None:
    for spelling in ("example.skip_empty_chunks", {"name": "example.skip_empty_chunks"}):
        node = array_with(spelling)
        assert not node.write_empty_chunks
        assert node.facts()["write_empty_chunks"] is False
    plain = parse_v3(array())
    assert isinstance(plain, ArrayNode)
    assert plain.write_empty_chunks
    assert "write_empty_chunks" not in plain.facts()


def test_a_pyramid_is_told_in_order() -> None:
    node = group_with(extension("example.multiscale-arrays", multiscale={"datasets": ["b/1", "a"]}))
    assert node.extension(MultiscaleArrays) == MultiscaleArrays(("b/1", "a"))
    assert node.facts()["multiscale"] == ["b/1", "a"]


def test_a_tier_is_told_of_the_arrays_that_are_named() -> None:
    node = group_with(extension("example.tiered-storage", **{"slow-arrays": ["a/b", "c"]}))
    tiered = node.extension(TieredStorage)
    assert tiered is not None
    assert "tier" not in node.facts()
    for path, tier in (("a/b", "slow"), ("c", "slow"), ("a", None), ("a/b/c", None), ("", None)):
        assert tiered.tier(path) == tier
        assert tiered.facts(path).get("tier") == tier
        assert (tiered.opening(path, "c/0/0") is None) == (tier is None)


DATASETS = "multiscale: datasets"


@pytest.mark.parametrize(
    ("name", "configuration", "message"),
    [
        ("example.offset", {}, "offset: is missing"),
        (
            "example.offset",
            {"offset": [1]},
            "offset: must have a number for each of 2 dimensions, not 1",
        ),
        ("example.offset", {"offset": [1, 2.0]}, "offset[1]: must be an integer, not 2.0"),
        ("example.offset", {"offset": [True, 2]}, "offset[0]: must be an integer, not true"),
        ("example.offset", {"offset": 3}, "offset: must be an array, not 3"),
        ("example.offset", {"offset": [1, 2], "unit": "um"}, "'unit': unknown member"),
        ("example.array-statistics", {"max": 1}, "min: is missing"),
        ("example.array-statistics", {"min": 1}, "max: is missing"),
        ("example.array-statistics", {"min": 2, "max": 1}, "min: must be at most max, 1, not 2"),
        ("example.array-statistics", {"min": "0", "max": 1}, "min: must be a number, not '0'"),
        ("example.array-statistics", {"min": 0, "max": True}, "max: must be a number, not true"),
        ("example.array-statistics", {"min": 0, "max": 1, "mean": 0}, "'mean': unknown member"),
        ("example.skip_empty_chunks", {"skip": True}, "'skip': unknown member"),
    ],
)
def test_a_wrong_extension_of_an_array_is_named(
    name: str, configuration: dict[str, Any], message: str
) -> None:
    for ignorable in ({}, {"must_understand": False}):
        wrong = {"name": name, "configuration": configuration, **ignorable}
        said = refusal_of(array(extensions=["example.skip_empty_chunks", wrong]))
        assert said == f"zarr.json: extensions[1]: {name}: {message}"


@pytest.mark.parametrize(
    ("name", "configuration", "message"),
    [
        ("example.multiscale-arrays", {}, "multiscale: is missing"),
        ("example.multiscale-arrays", {"multiscale": []}, "multiscale: must be an object, not an"),
        ("example.multiscale-arrays", {"multiscale": {}}, f"{DATASETS}: is missing"),
        ("example.multiscale-arrays", {"multiscale": {"datasets": []}}, f"{DATASETS}: must list"),
        ("example.multiscale-arrays", {"multiscale": {"axes": []}}, "multiscale: 'axes': unknown"),
        ("example.tiered-storage", {"slow-arrays": []}, "slow-arrays: must list one or more"),
        ("example.tiered-storage", {"slow_arrays": ["a"]}, "'slow_arrays': unknown member"),
        ("example.parent-ref", {}, "reference: is missing"),
        ("example.parent-ref", {"reference": "..", "depth": 1}, "'depth': unknown member"),
        ("example.parent-ref", {"reference": 1}, "reference: must be a string, not 1"),
    ],
)
def test_a_wrong_extension_of_a_group_is_named(
    name: str, configuration: dict[str, Any], message: str
) -> None:
    said = refusal_of(group(extensions=[{"name": name, "configuration": configuration}]))
    assert said.startswith(f"zarr.json: extensions[0]: {name}: {message}")


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("", "has the path segment ''"),
        ("/a", "is absolute"),
        ("a//b", "has the path segment ''"),
        ("a/", "has the path segment ''"),
        ("./a", "has the path segment '.'"),
        ("a/../b", "has the path segment '..'"),
        ("a\\b", "holds a backslash"),
        ("a\0", "holds a NUL"),
        (1, "must be a string"),
        ("ok", "is listed twice"),
    ],
)
def test_a_wrong_path_is_named_with_its_index(path: Any, problem: str) -> None:
    paths = ["ok", path]
    pyramid = extension("example.multiscale-arrays", multiscale={"datasets": paths})
    tiered = extension("example.tiered-storage", **{"slow-arrays": paths})
    assert f"{DATASETS}[1]: " in refusal_of(group(extensions=[pyramid]))
    said = refusal_of(group(extensions=[tiered]))
    assert "slow-arrays[1]: " in said
    assert problem in said


@pytest.mark.parametrize(
    ("document", "name"),
    [
        (group, "example.offset"),
        (group, "example.array-statistics"),
        (group, "example.skip_empty_chunks"),
        (array, "example.multiscale-arrays"),
        (array, "example.tiered-storage"),
    ],
)
def test_an_extension_that_stands_at_the_wrong_kind_of_node_is_refused(
    document: Any, name: str
) -> None:
    kind = "groups" if document is group else "arrays"
    said = refusal_of(document(extensions=[{"name": name, "must_understand": False}]))
    assert said == f"zarr.json: extensions[0]: {name}: is no extension of {kind}"


def test_of_two_the_last_counts() -> None:
    first, last = (extension("example.offset", offset=[n, n]) for n in (1, 2))
    node = array_with(first, last)
    assert node.extension(Offset) == Offset((2, 2))
    assert node.facts()["origin"] == [2, 2]


# -- those that others install


class Doubled(GenericExtension):
    """An array is shown as twice as long."""

    name: ClassVar[str] = "test.doubled"
    aliases: ClassVar[tuple[str, ...]] = ("https://example.com/doubled",)
    node_types: ClassVar[Any] = frozenset({"array"})

    def interpret(self, node: Node) -> Node:
        assert isinstance(node, ArrayNode)
        return replace(node, shape=tuple(2 * length for length in node.shape))


class Shaped(GenericExtension):
    """Knows the shape of its array."""

    name: ClassVar[str] = "test.shaped"

    def __init__(self, shape: object) -> None:
        self._shape = shape

    @classmethod
    def from_configuration(
        cls, configuration: Mapping[str, Any], shape: tuple[int, ...] | None
    ) -> Self:
        return cls(shape)

    def facts(self, array: str) -> Mapping[str, Any]:
        return {"seen": [self._shape, array]}


class Faulty(GenericExtension):
    """Fails where its configuration says, and with what."""

    name: ClassVar[str] = "test.faulty"

    def __init__(self, where: str, fault: Any) -> None:
        self._where = where
        self._fault = fault

    @classmethod
    def from_configuration(
        cls, configuration: Mapping[str, Any], shape: tuple[int, ...] | None
    ) -> Self:
        made = cls(configuration["where"], FAULTS[configuration["fault"]])
        made._fail("from_configuration")
        return made

    def _fail(self, where: str) -> Any:
        if where != self._where:
            return None
        if isinstance(self._fault, BaseException):
            raise self._fault
        return self._fault

    def interpret(self, node: Node) -> Node:
        return self._fail("interpret") if self._where == "interpret" else node

    def facts(self, array: str) -> Mapping[str, Any]:
        return self._fail("facts") or {"fine": 1}


class Unprintable(Exception):
    """An exception that cannot be shown."""

    def __str__(self) -> str:
        raise ValueError("not me")


LOOP: list[Any] = []
LOOP.append(LOOP)
FAULTS: dict[str, Any] = {
    "metadata": MetadataError("member: is wrong"),
    "value": ValueError("no such value"),
    "exit": SystemExit("bye"),
    "recursion": RecursionError(),
    "unprintable": Unprintable(),
    "unprintable metadata": MetadataError(Unprintable()),
    "number": 7,
    "bytes": {"a": b"x"},
    "nan": {"a": float("nan")},
    "loop": {"a": LOOP},
    "number as name": {1: 1},
    "taken": {"shape": [1]},
}


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    with installing(monkeypatch) as given_install:
        given_install(EXTENSIONS.group, {cls.name: cls for cls in (Doubled, Shaped, Faulty)})
        yield given_install


@pytest.mark.parametrize("name", ["test.doubled", "https://example.com/doubled"])
def test_an_extension_may_interpret_the_metadata(install: Install, name: str) -> None:
    node = array_with(name)
    assert (node.shape, node.grid_shape) == ((8, 8), (4, 4))
    assert node.ignored == ()
    assert node.facts()["extensions"] == [{"name": name}]


def test_extensions_interpret_one_after_the_other(install: Install) -> None:
    assert array_with("test.doubled", "test.doubled").shape == (16, 16)


def test_an_extension_is_made_with_the_shape(install: Install) -> None:
    assert array_with("test.shaped").facts()["seen"] == [(4, 4), ""]
    assert group_with("test.shaped").facts()["seen"] == [None, ""]


def faulty(where: str, fault: str) -> dict[str, Any]:
    return extension("test.faulty", where=where, fault=fault)


@pytest.mark.parametrize("where", ["from_configuration", "interpret"])
@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("metadata", "test.faulty: member: is wrong"),
        ("value", "'test.faulty' is installed but fails: ValueError: no such value"),
        ("exit", "'test.faulty' is installed but fails: SystemExit: bye"),
        ("recursion", "'test.faulty' is installed but fails: RecursionError:"),
        ("unprintable", "'test.faulty' is installed but fails: Unprintable:"),
        ("unprintable metadata", "'test.faulty' is installed but fails: ValueError: not me"),
    ],
)
def test_an_extension_that_fails_makes_a_node_that_is_not_loaded(
    install: Install, where: str, fault: str, message: str
) -> None:
    for document in (array, group):
        said = refusal_of(document(extensions=[faulty(where, fault)]))
        index = "" if where == "interpret" else "[0]"
        assert said.startswith(f"zarr.json: extensions{index}: {message}")


def test_an_interpretation_that_is_no_node_is_refused(install: Install) -> None:
    said = refusal_of(array(extensions=[faulty("interpret", "number")]))
    assert said == "zarr.json: extensions: test.faulty: interpret returns no array"


@pytest.mark.parametrize(
    "fault",
    ["value", "recursion", "unprintable", "number", "bytes", "nan", "loop", "taken"],
)
def test_facts_that_fail_are_told_of_and_others_remain(install: Install, fault: str) -> None:
    node = array_with(faulty("facts", fault), extension("example.offset", offset=[1, 2]))
    facts = node.facts()
    json.dumps(facts, allow_nan=False)
    [error] = facts["extension_errors"]
    assert error.startswith("test.faulty: ")
    assert facts["origin"] == [1, 2]
    assert facts["shape"] == [4, 4]


def test_facts_under_names_that_are_no_text_are_left_out(install: Install) -> None:
    node = array_with(faulty("facts", "number as name"))
    assert "test.faulty: TypeError: facts: 1 is no name" in node.facts()["extension_errors"]


def test_an_extension_that_is_installed_is_not_ignored_when_it_fails(install: Install) -> None:
    install(EXTENSIONS.group, {"test.absent": "no_such_package:Class"})
    ignorable = {"name": "test.absent", "must_understand": False}
    assert "'test.absent' is installed but fails" in refusal_of(array(extensions=[ignorable]))
    nobodys = {"name": "nobody", "must_understand": False}
    assert array_with(nobodys).ignored == ("nobody",)


def test_an_extension_that_must_be_understood_and_is_unknown_is_named() -> None:
    said = refusal_of(array(extensions=["example.unknown"]))
    assert said == (
        "zarr.json: extensions[0]: example.unknown must be understood: "
        "'example.unknown' is not known here"
    )


# -- what acts on nodes below


def active(kind: type[GenericExtension], array: str, number: int = 0) -> Active:
    written = parse_v3(group(extensions=[{"name": "x", "must_understand": False}])).extensions[0]
    return Active(kind, kind(), replace(written, configuration={"number": number}), array)


def test_below_a_node_acts_what_is_inherited_and_knows_the_way() -> None:
    class Inherited(GenericExtension):
        inherited: ClassVar[bool] = True

    class Own(GenericExtension):
        pass

    above = (active(Inherited, ""), active(Own, ""), active(Inherited, "../a"))
    assert [each.array for each in below(above, "b/c")] == ["b/c", "../a/b/c"]


def test_what_acts_from_above_and_by_reference_acts_once() -> None:
    kind = GenericExtension
    above = (active(kind, "a"), active(kind, "a", 1))
    own = (active(kind, "a"), active(kind, "", 1))
    assert joined(above, own) == (above[1], *own)
    assert joined(above, ()) == above
    assert joined((), own) == own


SEGMENT = st.text("ab.", min_size=1, max_size=2)


@given(st.lists(SEGMENT | st.just(".."), max_size=4).map("/".join), st.sampled_from([[], ["a"]]))
def test_a_path_below_is_taken_or_refused(path: str, before: list[str]) -> None:
    tiered = extension("example.tiered-storage", **{"slow-arrays": [*before, path]})
    allowed = path not in before and not {"", ".", ".."} & set(path.split("/"))
    try:
        node = group_with(tiered)
    except NodeError:
        assert not allowed
    else:
        assert allowed
        found = node.extension(TieredStorage)
        assert found is not None
        assert found.tier(path) == "slow"


def test_skipping_is_found_by_its_class() -> None:
    assert array_with("example.skip_empty_chunks").extension(SkipEmptyChunks) == SkipEmptyChunks()
    assert array_with("example.skip_empty_chunks").extension(Offset) is None
