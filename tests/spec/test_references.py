"""References to other nodes: the four ways of ZEP 10, and ways that lead nowhere, out or back."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from builders.documents import array, group
from builders.plug_ins import installing
from hypothesis import given
from hypothesis import strategies as st

from zarrfuse.errors import MetadataError
from zarrfuse.spec.active import EXTENSIONS
from zarrfuse.spec.extensions import GenericExtension
from zarrfuse.spec.node import ArrayNode, Node, NodeError
from zarrfuse.spec.node_v3 import parse_v3
from zarrfuse.spec.paths import relative, target
from zarrfuse.spec.references import resolve
from zarrfuse.spec.zep10 import ArrayStatistics, Offset, TieredStorage

SLOW = {"name": "example.tiered-storage", "configuration": {"slow-arrays": ["a/b/c", "a/x"]}}
OFFSET = {"name": "example.offset", "configuration": {"offset": [3, 4]}}


def refer(name: str, path: object, **members: Any) -> dict[str, Any]:
    return {"name": name, "configuration": {"reference": path}, **members}


def parent(path: object, **members: Any) -> dict[str, Any]:
    return refer("example.parent-ref", path, **members)


class Hierarchy:
    """Documents by path; remembers which of them were read."""

    def __init__(self, documents: Mapping[str, bytes]) -> None:
        self.documents = documents
        self.read: list[str] = []

    def load(self, path: str) -> Node:
        self.read.append(path)
        if path not in self.documents:
            raise MetadataError(f"/{path} is no node")
        try:
            return parse_v3(self.documents[path])
        except NodeError as error:
            raise MetadataError(f"/{path} is not loaded: {error}") from error

    def node(self, path: str) -> Node:
        """The node at a path with its references followed."""
        return resolve(parse_v3(self.documents[path]), path, self.load)

    def refusal(self, path: str) -> str:
        with pytest.raises(MetadataError) as refused:
            self.node(path)
        return str(refused.value)


WAYS: dict[str, Callable[[], dict[str, Any]]] = {
    "inside the extension": lambda: refer("example.tiered-storage", "../../.."),
    "a reference extension": lambda: refer("example.tiered-storage-ref", "../../.."),
    "a core parent reference": lambda: parent("../../.."),
    "a core parent reference by its URI": lambda: refer(
        "https://zarr.dev/extensions/parent-ref", "../../.."
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_each_way_of_zep_10_leads_to_the_extension_of_the_node_above(way: str) -> None:
    hierarchy = Hierarchy({"": group(extensions=[SLOW]), "a/b/c": array(extensions=[WAYS[way]()])})
    node = hierarchy.node("a/b/c")
    assert isinstance(node, ArrayNode)
    [active] = node.active
    assert active.kind is TieredStorage
    assert active.array == "a/b/c"
    assert node.facts()["tier"] == "slow"
    assert (node.references, node.ignored) == ((), ())
    assert hierarchy.read == [""], "only what is referred to is read"


def test_a_copy_of_the_metadata_needs_no_other_node() -> None:
    copied = {"name": "example.tiered-storage", "configuration": {"slow-arrays": ["c"]}}
    hierarchy = Hierarchy({"a": group(extensions=[copied])})
    assert hierarchy.node("a").active[0].array == ""
    assert hierarchy.read == []


def test_a_node_that_is_not_named_is_not_slow() -> None:
    hierarchy = Hierarchy(
        {"": group(extensions=[SLOW]), "a/y": array(extensions=[parent("../..")])}
    )
    assert "tier" not in hierarchy.node("a/y").facts()


def test_what_is_not_inherited_is_taken_only_by_name() -> None:
    documents = {
        "raw": array(extensions=[OFFSET]),
        "by-name": array(extensions=[refer("example.offset", "../raw")]),
        "by-ref": array(extensions=[refer("example.offset-ref", "../raw")]),
        "as-a-whole": array(extensions=[parent("../raw")]),
    }
    hierarchy = Hierarchy(documents)
    for path in ("by-name", "by-ref"):
        node = hierarchy.node(path)
        assert isinstance(node, ArrayNode)
        assert node.extension(Offset) == Offset((3, 4))
        assert node.facts()["origin"] == [3, 4]
    assert hierarchy.node("as-a-whole").active == ()


def test_what_is_taken_by_name_must_go_with_the_shape() -> None:
    hierarchy = Hierarchy(
        {
            "raw": array(extensions=[OFFSET]),
            "line": array([4], extensions=[refer("example.offset", "../raw")]),
        }
    )
    assert hierarchy.refusal("line") == (
        "extensions[0]: example.offset: reference: '../raw': "
        "example.offset: offset: must have a number for each of 1 dimensions, not 2"
    )


def test_the_own_extension_overrides_what_is_referred_to() -> None:
    own = {"name": "example.offset", "configuration": {"offset": [7, 7]}}
    hierarchy = Hierarchy(
        {
            "raw": array(extensions=[OFFSET]),
            "a": array(extensions=[own, refer("example.offset", "../raw")]),
        }
    )
    assert hierarchy.node("a").facts()["origin"] == [7, 7]


def test_references_lead_on_over_several_nodes() -> None:
    documents = {
        "": group(extensions=[SLOW]),
        "a": group(extensions=[parent("..")]),
        "a/b": group(),
        "a/b/c": array(extensions=[parent("../..")]),
    }
    hierarchy = Hierarchy(documents)
    assert hierarchy.node("a/b/c").facts()["tier"] == "slow"
    assert hierarchy.read == ["a", ""]


def test_a_node_referred_to_twice_is_read_once_and_acts_once() -> None:
    documents = {
        "": group(extensions=[SLOW]),
        "a": group(extensions=[parent("..")]),
        "a/x": array(extensions=[parent(".."), parent("../.."), parent("../..")]),
    }
    hierarchy = Hierarchy(documents)
    assert [active.array for active in hierarchy.node("a/x").active] == ["a/x"]
    assert sorted(hierarchy.read) == ["", "a"]


def test_many_ways_to_one_node_cost_no_more_than_the_nodes() -> None:
    """Two references at each of 25 levels are 2^25 ways."""
    documents = {"d": array(extensions=[{"name": "example.array-statistics", **STATISTICS}])}
    documents |= {
        "d/" * level + "d": array(extensions=[refer("example.array-statistics", "..")] * 2)
        for level in range(1, 25)
    }
    hierarchy = Hierarchy(documents)
    node = hierarchy.node("d/" * 24 + "d")
    assert isinstance(node, ArrayNode)
    assert node.extension(ArrayStatistics) == ArrayStatistics(0, 9)
    assert len(node.active) == 1
    assert len(hierarchy.read) == 24


STATISTICS = {"configuration": {"min": 0, "max": 9}}


# -- what is refused


@pytest.mark.parametrize("name", ["example.parent-ref", "example.offset", "example.offset-ref"])
@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("/a", "is absolute"),
        ("", "has the path segment ''"),
        (".", "has the path segment '.'"),
        ("../", "has the path segment ''"),
        ("..\\b", "holds a backslash"),
        (["..", "a"], "must be a string"),
    ],
)
def test_a_path_that_is_none_is_refused_when_read(name: str, path: object, problem: str) -> None:
    for ignorable in ({}, {"must_understand": False}):
        with pytest.raises(NodeError) as refused:
            parse_v3(array(extensions=[refer(name, path, **ignorable)]))
        said = str(refused.value)
        assert said.startswith(f"zarr.json: extensions[0]: {name}: reference: ")
        assert problem in said


@pytest.mark.parametrize("ignorable", [{}, {"must_understand": False}])
@pytest.mark.parametrize("path", ["../../..", "../../../x", "../a/../../.."])
def test_a_reference_that_leaves_the_store_is_refused(path: str, ignorable: Any) -> None:
    hierarchy = Hierarchy({"a/b": array(extensions=[parent(path, **ignorable)])})
    assert hierarchy.refusal("a/b") == (
        f"extensions[0]: example.parent-ref: reference: '{path}' leads out of the store"
    )
    assert hierarchy.read == []


@pytest.mark.parametrize("ignorable", [{}, {"must_understand": False}])
@pytest.mark.parametrize("path", ["../b", "x/..", "../../a/b"])
def test_a_reference_to_the_node_itself_is_refused(path: str, ignorable: Any) -> None:
    hierarchy = Hierarchy({"a/b": array(extensions=[parent(path, **ignorable)])})
    assert hierarchy.refusal("a/b").endswith(f"'{path}' leads back: /a/b -> /a/b")
    assert hierarchy.read == []


@pytest.mark.parametrize("ignorable", [{}, {"must_understand": False}])
def test_a_loop_over_several_nodes_is_refused_at_each_of_them(ignorable: Any) -> None:
    documents = {
        "": group(extensions=[parent("a/b", **ignorable)]),
        "a": group(extensions=[parent("..", **ignorable)]),
        "a/b": group(extensions=[parent("..", **ignorable)]),
    }
    loops = {
        "": "/ -> /a/b -> /a -> /",
        "a": "/a -> / -> /a/b -> /a",
        "a/b": "/a/b -> /a -> / -> /a/b",
    }
    for path, loop in loops.items():
        said = Hierarchy(documents).refusal(path)
        assert said.startswith("extensions[0]: example.parent-ref: reference: ")
        assert said.endswith(f"leads back: {loop}")


def test_a_loop_elsewhere_is_a_node_that_cannot_be_used() -> None:
    documents = {
        "a": group(extensions=[parent("../b")]),
        "b": group(extensions=[parent("../a")]),
        "strict": array(extensions=[parent("../a")]),
        "lax": array(extensions=[parent("../a", must_understand=False)]),
    }
    said = Hierarchy(documents).refusal("strict")
    assert said.startswith("extensions[0]: example.parent-ref: reference: '../a': ")
    assert said.endswith("leads back: /a -> /b -> /a")
    assert Hierarchy(documents).node("lax").ignored == ("example.parent-ref",)


def test_a_chain_that_never_ends_is_refused() -> None:
    documents = {
        "n/" * level + "n": group(extensions=[parent("..")] if level else [SLOW])
        for level in range(60)
    }
    hierarchy = Hierarchy(documents)
    assert hierarchy.node("n/" * 30 + "n").active
    assert "more than 32 nodes refer to one another" in hierarchy.refusal("n/" * 40 + "n")


def test_too_many_referenced_nodes_are_refused() -> None:
    documents = {f"g{index}": group() for index in range(100)}
    documents["all"] = group(extensions=[parent(f"../g{index}") for index in range(100)])
    hierarchy = Hierarchy(documents)
    assert "more than 64 nodes are referred to" in hierarchy.refusal("all")
    assert len(hierarchy.read) <= 64


BROKEN = {
    "nothing": None,
    "damaged": b"{",
    "refused": group(extensions=["example.unknown"]),
    "without": group(),
    "other": array(extensions=[OFFSET]),
}


@pytest.mark.parametrize("there", list(BROKEN))
def test_a_reference_that_leads_to_nothing_is_refused_or_ignored(there: str) -> None:
    documents = {name: text for name, text in BROKEN.items() if text is not None}
    name = "example.array-statistics"
    documents["strict"] = array(extensions=[refer(name, f"../{there}")])
    documents["lax"] = array(extensions=[refer(name, f"../{there}", must_understand=False), OFFSET])
    hierarchy = Hierarchy(documents)
    said = hierarchy.refusal("strict")
    assert said.startswith(f"extensions[0]: {name}: reference: '../{there}': /{there} ")
    lax = hierarchy.node("lax")
    assert lax.ignored == (name,)
    assert lax.facts()["origin"] == [3, 4]


def test_a_refusal_far_away_names_each_node_on_the_way() -> None:
    documents = {
        "a": group(extensions=[parent("b")]),
        "a/b": group(extensions=[parent("c")]),
        "a/b/c": group(extensions=["example.unknown"]),
    }
    said = Hierarchy(documents).refusal("a")
    assert "'b': /a/b: extensions[0]: " in said
    assert "'c': /a/b/c is not loaded: zarr.json: extensions[0]: example.unknown must" in said


def test_an_array_may_refer_to_what_belongs_to_groups_only_if_it_is_inherited() -> None:
    parse_v3(array(extensions=[refer("example.tiered-storage", "..")]))
    with pytest.raises(NodeError, match="is no extension of arrays"):
        parse_v3(array(extensions=[refer("example.multiscale-arrays", "..")]))
    with pytest.raises(NodeError, match="is no extension of groups"):
        parse_v3(group(extensions=[refer("example.offset-ref", "..")]))


def test_a_reference_extension_of_what_nobody_knows_is_unknown_itself() -> None:
    ignorable = refer("example.unknown-ref", "..", must_understand=False)
    assert parse_v3(group(extensions=[ignorable])).ignored == ("example.unknown-ref",)
    for name in ("example.unknown-ref", "-ref"):
        with pytest.raises(NodeError, match=f"{name} must be understood"):
            parse_v3(group(extensions=[refer(name, "..")]))


def test_a_reference_extension_has_nothing_but_its_reference() -> None:
    wrong = {"name": "example.offset-ref", "configuration": {"reference": "..", "offset": [1]}}
    with pytest.raises(NodeError, match=r"example\.offset-ref: 'offset': unknown member"):
        parse_v3(array(extensions=[wrong]))
    with pytest.raises(NodeError, match=r"example\.offset-ref: reference: is missing"):
        parse_v3(array(extensions=["example.offset-ref"]))


class Reference(GenericExtension):
    """Has a member `reference` of its own, and knows `-ref` as a name of its own."""

    name = "test.cited-ref"
    by_reference = False

    def __init__(self, reference: str = "") -> None:
        self._reference = reference

    @classmethod
    def from_configuration(
        cls, configuration: Mapping[str, Any], shape: tuple[int, ...] | None
    ) -> Any:
        return cls(configuration["reference"])

    def facts(self, array: str) -> Mapping[str, Any]:
        return {"cites": self._reference}


class Cited(GenericExtension):
    """Would be found by `test.cited-ref` if that were no name."""

    name = "test.cited"
    aliases = ("https://example.com/cited",)
    inherited = True

    def facts(self, array: str) -> Mapping[str, Any]:
        return {"cited": array}


def test_an_extension_may_keep_its_member_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    with installing(monkeypatch) as install:
        install(EXTENSIONS.group, {cls.name: cls for cls in (Reference, Cited)})
        node = parse_v3(group(extensions=[refer("test.cited-ref", "/doi/10.1")]))
        assert node.references == ()
        assert node.facts()["cites"] == "/doi/10.1"


def test_an_alias_at_one_node_is_the_name_at_another(monkeypatch: pytest.MonkeyPatch) -> None:
    with installing(monkeypatch) as install:
        install(EXTENSIONS.group, {cls.name: cls for cls in (Reference, Cited)})
        documents = {"": group(extensions=["https://example.com/cited"])}
        ways = (refer("test.cited", ".."), refer("https://example.com/cited-ref", ".."))
        documents |= {f"n{i}": array(extensions=[way]) for i, way in enumerate(ways)}
        hierarchy = Hierarchy(documents)
        assert [hierarchy.node(path).facts()["cited"] for path in ("n0", "n1")] == ["n0", "n1"]


# -- paths


@pytest.mark.parametrize(
    ("path", "reference", "there"),
    [
        ("a/b", "..", "a"),
        ("a/b", "../..", ""),
        ("a/b", "../../..", None),
        ("a/b", "../c/d", "a/c/d"),
        ("", "a", "a"),
        ("", "..", None),
        ("a", "b/../c", "a/c"),
        ("a", "../../a", None),
    ],
)
def test_where_a_reference_leads(path: str, reference: str, there: str | None) -> None:
    assert target(path, reference) == there


PATHS = st.lists(st.sampled_from("abc"), max_size=4).map("/".join)


@given(PATHS, PATHS)
def test_the_way_from_one_node_to_another_leads_there(start: str, path: str) -> None:
    way = relative(path, start)
    assert (way == "") == (start == path)
    if way:
        assert target(start, way) == path


# -- any hierarchy


REFERENCE_PATHS = st.lists(st.sampled_from(["..", "..", "a", "b"]), min_size=1, max_size=4).map(
    "/".join
)
ENTRIES = st.one_of(
    st.builds(
        refer,
        st.sampled_from(
            ["example.parent-ref", "example.tiered-storage", "example.tiered-storage-ref"]
        ),
        REFERENCE_PATHS,
        must_understand=st.booleans(),
    ),
    st.just(SLOW),
)
NODES = st.lists(st.sampled_from("ab"), max_size=3).map("/".join)


@given(st.dictionaries(NODES, st.lists(ENTRIES, max_size=3), min_size=1))
def test_any_hierarchy_ends_and_reads_no_more_than_is_referred_to(
    listed: dict[str, list[dict[str, Any]]],
) -> None:
    documents = {
        path: group(extensions=entries) if entries else group() for path, entries in listed.items()
    }
    for path in documents:
        hierarchy = Hierarchy(documents)
        try:
            node = hierarchy.node(path)
        except MetadataError as error:
            assert str(error).startswith("extensions[")
        else:
            assert node.references == ()
            assert all(active.kind is TieredStorage for active in node.active)
            json.dumps(node.facts())
        assert len(set(hierarchy.read)) == len(hierarchy.read), "each is read once"
        assert set(hierarchy.read) <= referred(path, listed)


def referred(path: str, listed: Mapping[str, list[dict[str, Any]]]) -> set[str]:
    """Every path that references lead to from a node, over however many nodes."""
    found: set[str] = set()
    todo = [path]
    while todo:
        start = todo.pop()
        for entry in listed.get(start, []):
            to = entry["configuration"].get("reference")
            there = None if to is None else target(start, to)
            if there is not None and there not in found:
                found.add(there)
                todo.append(there)
    return found
