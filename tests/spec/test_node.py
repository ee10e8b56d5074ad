"""Metadata documents: conformance, rules of arrays and groups, Zarr v2, and damaged input."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from builders.nodes import parsed
from hypothesis import given
from hypothesis import strategies as st

from zarrfuse.errors import MetadataError
from zarrfuse.spec.chunk_keys import DefaultEncoding, V2Encoding
from zarrfuse.spec.concat_parts import Part
from zarrfuse.spec.names import Extension
from zarrfuse.spec.node import MISSING, ArrayNode, GroupNode, NodeError
from zarrfuse.spec.node_v2 import parse_v2_array, parse_v2_group
from zarrfuse.spec.node_v3 import parse_v3

VECTORS = json.loads((Path(__file__).parent / "conformance" / "nodes.json").read_text())["cases"]

ARRAY: dict[str, Any] = {
    "zarr_format": 3,
    "node_type": "array",
    "shape": [5, 7],
    "data_type": "uint8",
    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2, 3]}},
    "chunk_key_encoding": {"name": "default"},
    "fill_value": 0,
    "codecs": ["bytes"],
}
GROUP: dict[str, Any] = {"zarr_format": 3, "node_type": "group"}
V2_ARRAY: dict[str, Any] = {
    "zarr_format": 2,
    "shape": [5, 7],
    "chunks": [2, 3],
    "dtype": "<u2",
    "compressor": {"id": "zlib", "level": 1},
    "fill_value": 0,
    "order": "C",
    "filters": None,
}


def array(**members: Any) -> ArrayNode:
    return parsed(ARRAY | members)


def v2_array(**members: Any) -> ArrayNode:
    return parse_v2_array(json.dumps(V2_ARRAY | members).encode())


def without(document: dict[str, Any], member: str) -> bytes:
    return json.dumps({k: v for k, v in document.items() if k != member}).encode()


def refusal(document: bytes) -> NodeError:
    with pytest.raises(NodeError) as caught:
        parse_v3(document)
    return caught.value


# -- conformance


@pytest.mark.parametrize("case", VECTORS)
def test_a_document_is_loaded_or_refused_as_the_specification_says(case: dict[str, Any]) -> None:
    document = json.dumps(case["doc"]).encode()
    if case["load"]:
        assert parse_v3(document).node_type == case["doc"]["node_type"]
        return
    error = refusal(document)
    assert str(error).startswith("zarr.json: ")
    for name in case["names"]:
        assert name in str(error)


# -- what an array says


def test_an_array_is_described() -> None:
    node = array(dimension_names=["y", None], attributes={"a": [1]})
    assert node == ArrayNode(
        zarr_format=3,
        shape=(5, 7),
        data_type="uint8",
        chunk_shape=(2, 3),
        chunk_keys=DefaultEncoding(),
        codecs=(Extension("bytes", {}),),
        dimension_names=("y", None),
        fill_value=0,
    )
    assert node.grid_shape == (3, 3)
    assert node.attributes == {"a": [1]}


@pytest.mark.parametrize(
    ("key", "coords"),
    [
        ("c/0/0", (0, 0)),
        ("c/2/2", (2, 2)),
        ("c/3/0", None),
        ("c/0/3", None),
        ("c/0", None),
        ("zarr.json", None),
    ],
)
def test_a_key_is_a_chunk_only_inside_the_grid(key: str, coords: tuple[int, ...] | None) -> None:
    assert array().chunk_at(key) == coords
    if coords is not None:
        assert array().chunk_key(coords) == key


def test_a_scalar_has_one_chunk() -> None:
    grid = {"name": "regular", "configuration": {"chunk_shape": []}}
    node = array(shape=[], chunk_grid=grid, dimension_names=[])
    assert node.grid_shape == ()
    assert node.chunk_at("c") == ()
    assert node.facts()["dimension_names"] == []


def test_an_array_without_elements_has_no_chunks() -> None:
    node = array(shape=[0, 7])
    assert node.grid_shape == (0, 3)
    assert node.chunk_at("c/0/0") is None


@pytest.mark.parametrize("size", [2**53 + 1, 2**63, 2**64, 2**70])
def test_a_shape_may_be_beyond_64_bits(size: int) -> None:
    node = array(shape=[size, 1])
    assert node.shape == (size, 1)
    last = (size - 1) // 2
    assert node.chunk_at(f"c/{last}/0") == (last, 0)
    assert node.chunk_at(f"c/{last + 1}/0") is None


def test_facts_of_a_node_are_json() -> None:
    parts = {"parts": [{"key_suffix": ""}, {"key_suffix": ".index", "size": 20}]}
    node = array(
        codecs=["bytes", {"name": "zstd", "configuration": {"level": 1}}],
        storage_transformers=[{"name": "concat-parts", "configuration": parts}],
        extensions=[{"name": "a.b", "must_understand": False}],
        later={"must_understand": False},
        dimension_names=["y", None],
    )
    facts = node.facts()
    assert json.loads(msgspec.json.encode(facts)) == facts
    assert facts == {
        "node_type": "array",
        "zarr_format": 3,
        "shape": [5, 7],
        "data_type": "uint8",
        "chunk_shape": [2, 3],
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "dimension_names": ["y", None],
        "fill_value": 0,
        "codecs": [{"name": "bytes"}, {"name": "zstd", "configuration": {"level": 1}}],
        "parts": [{"key_suffix": ""}, {"key_suffix": ".index", "size": 20}],
        "extensions": [{"name": "a.b", "must_understand": False}],
        "ignored": ["later", "a.b"],
    }


def test_a_missing_fill_value_is_not_null() -> None:
    node = parse_v3(without(ARRAY, "fill_value"))
    assert isinstance(node, ArrayNode)
    assert node.fill_value is MISSING
    assert "fill_value" not in node.facts()
    assert array(fill_value=None).fill_value is None
    assert array(fill_value=None).facts()["fill_value"] is None


def test_codecs_and_data_types_nobody_knows_are_for_the_decoder_to_refuse() -> None:
    node = array(codecs=["packbits"], data_type={"name": "x.y", "configuration": {"n": 1}})
    assert node.data_type == {"name": "x.y", "configuration": {"n": 1}}
    assert array(codecs=[]).codecs == ()


def test_the_examples_of_concat_parts_load() -> None:
    parts = [
        {"key_suffix": ".header", "size": 64},
        {"key_suffix": ""},
        {"key_suffix": ".index", "size": 1604},
    ]
    transformer = {"name": "concat-parts", "configuration": {"parts": parts}}
    node = array(storage_transformers=[transformer])
    assert node.parts is not None
    assert node.parts.leaves == (Part(".header", 64), Part("", None), Part(".index", 1604))


def test_storage_transformers_stack_and_ignorable_ones_are_passed_over() -> None:
    def transformer(*suffixes: str) -> dict[str, Any]:
        parts = [{"key_suffix": suffix} for suffix in suffixes]
        return {"name": "concat-parts", "configuration": {"parts": parts}}

    nope = {"name": "nope", "must_understand": False}
    node = array(storage_transformers=[transformer(".a", ""), nope, transformer("", ".sum")])
    assert node.parts is not None
    assert [leaf.key_suffix for leaf in node.parts.leaves] == [".a", ".a.sum", "", ".sum"]
    assert node.ignored == ("nope",)


def test_no_storage_transformer_means_no_parts() -> None:
    assert array().parts is None
    assert array(storage_transformers=[]).parts is None


def test_a_group_is_described() -> None:
    ignorable = {"name": "a.b", "must_understand": False}
    document = GROUP | {
        "attributes": {"ome": {}},
        "extensions": [ignorable],
        "consolidated_metadata": None,
        "later": {"must_understand": False},
    }
    node = parse_v3(json.dumps(document).encode())
    assert isinstance(node, GroupNode)
    assert node.attributes == {"ome": {}}
    assert node.facts() == {
        "node_type": "group",
        "zarr_format": 3,
        "extensions": [ignorable],
        "ignored": ["later", "a.b"],
    }


def test_large_members_that_are_not_needed_are_not_built() -> None:
    metadata = ",".join(f'"a/{i}": {json.dumps(ARRAY)}' for i in range(30_000))
    document = (
        f'{{"zarr_format": 3, "node_type": "group", "consolidated_metadata": {{{metadata}}}}}'
    )
    node = parse_v3(document.encode())
    assert len(bytes(node.raw_attributes)) == 2


# -- what is refused


REQUIRED = ["shape", "data_type", "chunk_grid", "chunk_key_encoding", "codecs"]


@pytest.mark.parametrize("member", ["zarr_format", "node_type", *REQUIRED])
def test_a_missing_member_is_named(member: str) -> None:
    assert str(refusal(without(ARRAY, member))) == f"zarr.json: {member}: is missing"


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"zarr_format": "3"}, "zarr_format: must be 3, not '3'"),
        ({"zarr_format": 3.0}, "zarr_format: must be 3, not 3.0"),
        ({"zarr_format": True}, "zarr_format: must be 3, not true"),
        ({"zarr_format": 2}, "zarr_format: must be 3, not 2"),
        ({"node_type": None}, "node_type: must be 'array' or 'group', not null"),
        ({"node_type": ["array"]}, "node_type: must be 'array' or 'group', not an array"),
        ({"shape": 5}, "shape: must be an array, not 5"),
        ({"shape": [5, True]}, "shape[1]: must be an integer, not true"),
        ({"shape": [5, 7.0]}, "shape[1]: must be an integer, not 7.0"),
        ({"shape": [5, "7"]}, "shape[1]: must be an integer, not '7'"),
        ({"shape": [5, -7]}, "shape[1]: must be at least 0, not -7"),
        ({"data_type": 8}, "data_type: must be a name or an object, not 8"),
        ({"data_type": "U I"}, "data_type: 'U I' is neither a raw name nor a URI-based name"),
        (
            {"data_type": {"name": "uint8", "must_understand": False}},
            "data_type: must_understand: cannot be false here",
        ),
        (
            {"chunk_grid": {"name": "regular", "must_understand": False}},
            "chunk_grid: must_understand: cannot be false here",
        ),
        ({"chunk_grid": "regular"}, "chunk_grid: configuration: chunk_shape: is missing"),
        ({"chunk_grid": {"name": "rectangular"}}, "chunk_grid: name: 'rectangular' is not known"),
        (
            {"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2]}}},
            "chunk_grid: configuration: chunk_shape: has 1 dimensions, shape has 2",
        ),
        (
            {"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2, 3], "x": 1}}},
            "chunk_grid: configuration: 'x': unknown member",
        ),
        (
            {"chunk_key_encoding": {"name": "suffix"}},
            "chunk_key_encoding: configuration: suffix: is missing",
        ),
        ({"codecs": "bytes"}, "codecs: must be an array, not 'bytes'"),
        ({"codecs": ["bytes", {}]}, "codecs[1]: name: is missing"),
        ({"dimension_names": "yx"}, "dimension_names: must be an array, not 'yx'"),
        ({"dimension_names": ["y", 1]}, "dimension_names[1]: must be a string, not 1"),
        ({"attributes": [1]}, "attributes: must be an object, not an array"),
        ({"attributes": None}, "attributes: must be an object, not null"),
        ({"storage_transformers": {}}, "storage_transformers: must be an array, not an object"),
        ({"storage_transformers": ["nope"]}, "storage_transformers[0]: name: 'nope' is not known"),
        (
            {"storage_transformers": ["concat-parts"]},
            "storage_transformers[0]: concat-parts: parts: is missing",
        ),
        (
            {
                "storage_transformers": [
                    {"name": "concat-parts", "configuration": {"parts": [{"key_suffix": "0"}]}}
                ]
            },
            "storage_transformers: parts: key_suffix: '0' behind the key 'c/1/1' "
            "is a key of the chunk at [1, 10]",
        ),
        ({"extensions": None}, "extensions: must be an array, not null"),
        ({"consolidated_metadata": {}}, "'consolidated_metadata': unknown member"),
        ({"": 1}, "'': unknown member"),
        ({"later": {"must_understand": True}}, "'later': unknown member"),
        ({"later": {"must_understand": 0}}, "'later': unknown member"),
        ({"later": {"must_understand": "false"}}, "'later': unknown member"),
        ({"later": {"a": {"must_understand": False}}}, "'later': unknown member"),
    ],
)
def test_a_refused_array_names_the_member(members: dict[str, Any], message: str) -> None:
    error = refusal(json.dumps(ARRAY | members).encode())
    assert str(error).startswith(f"zarr.json: {message}")


def test_a_group_with_members_of_an_array_is_refused() -> None:
    assert "'shape': unknown member" in str(refusal(json.dumps(GROUP | {"shape": []}).encode()))


@pytest.mark.parametrize(
    ("document", "node_type"),
    [
        ({**ARRAY, "shape": None}, "array"),
        ({**ARRAY, "zarr_format": 4}, "array"),
        ({**GROUP, "extensions": ["nope"]}, "group"),
        ({**GROUP, "node_type": "tree"}, None),
        ({**GROUP, "node_type": 1}, None),
        ({}, None),
        ([], None),
    ],
)
def test_a_refusal_tells_the_node_type_if_it_can(document: Any, node_type: str | None) -> None:
    assert refusal(json.dumps(document).encode()).node_type == node_type


# -- documents that are no documents


VALID = json.dumps(ARRAY | {"attributes": {"name": "\u00e4\u6f22"}}, ensure_ascii=False).encode()
DEEP = b"[" * 100_000 + b"]" * 100_000


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (b"", "is not JSON: "),
        (b"{", "is not JSON: "),
        (VALID[:-1], "is not JSON: "),
        (VALID + b"}", "is not JSON: "),
        (b"\xef\xbb\xbf" + VALID, "is not JSON: "),
        (VALID.decode().encode("utf-16"), "is not UTF-8 at byte 0"),
        (VALID.replace("\u00e4".encode(), b"\xe4"), "is not UTF-8 at byte "),
        (b"null", "is not a JSON object: "),
        (b'"array"', "is not a JSON object: "),
        (b"[" * 100_000, "is not a JSON object: "),
        (b'{"attributes": ' + DEEP + b"}", "is nested too deeply"),
        (b'{"attributes": ' + DEEP[:100_000] + b"}", "is nested too deeply"),
        (json.dumps(ARRAY).replace("[5,", "[5e999,").encode(), "shape: Number out of range"),
        (json.dumps(ARRAY).replace("[5,", f"[{'9' * 5000},").encode(), "shape: Integer value out"),
    ],
)
def test_damaged_documents_are_refused(document: bytes, message: str) -> None:
    assert str(refusal(document)).startswith(f"zarr.json: {message}")


def test_of_two_members_with_one_name_the_last_counts() -> None:
    node = parse_v3(json.dumps(ARRAY).encode()[:-1] + b', "shape": [9, 9], "shape": [8, 8]}')
    assert isinstance(node, ArrayNode)
    assert node.shape == (8, 8)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)
RICH_ARRAY = ARRAY | {
    "chunk_key_encoding": {
        "name": "suffix",
        "configuration": {"suffix": ".tiff", "base_encoding": {"name": "v2"}},
    },
    "attributes": {"a": 1},
    "dimension_names": ["y", None],
    "storage_transformers": [
        {
            "name": "concat-parts",
            "configuration": {"parts": [{"key_suffix": ".h", "size": 4}, {"key_suffix": ""}]},
        },
        {"name": "nope", "must_understand": False},
    ],
    "extensions": [{"name": "a.b", "must_understand": False, "configuration": {}}],
    "later": {"must_understand": False},
}
DOCUMENTS = [
    (parse_v3, RICH_ARRAY),
    (parse_v3, GROUP | {"attributes": {}, "consolidated_metadata": {"metadata": {}}}),
    (parse_v2_array, V2_ARRAY | {"dimension_separator": "/", "filters": [{"id": "delta"}]}),
    (parse_v2_group, {"zarr_format": 2}),
]


def loads_or_is_refused(parse: Any, document: bytes) -> None:
    """A node comes out that can tell its facts, or `NodeError`; anything else fails the test."""
    try:
        node = parse(document)
    except NodeError:
        return
    json.dumps(node.facts()).encode()
    assert isinstance(node.attributes, dict)
    if isinstance(node, ArrayNode):
        assert len(node.grid_shape) == node.ndim
        coords = (0,) * node.ndim
        assert node.chunk_at(node.chunk_key(coords)) in (coords, None)


@pytest.mark.parametrize(("parse", "document"), DOCUMENTS)
def test_the_documents_to_be_damaged_load_while_whole(parse: Any, document: Any) -> None:
    parse(json.dumps(document).encode())


@pytest.mark.parametrize("parse", [parse_v3, parse_v2_array, parse_v2_group])
@given(document=st.binary() | JSON.map(lambda value: json.dumps(value).encode()))
def test_any_bytes_load_or_are_refused(parse: Any, document: bytes) -> None:
    loads_or_is_refused(parse, document)


@given(st.sampled_from(DOCUMENTS), st.data())
def test_documents_with_a_value_changed_load_or_are_refused(case: Any, data: st.DataObject) -> None:
    parse, document = case
    document = json.loads(json.dumps(document))
    at = document
    while True:
        key = data.draw(st.sampled_from(list(at) if isinstance(at, dict) else range(len(at))))
        if not at[key] or not isinstance(at[key], dict | list) or data.draw(st.booleans()):
            break
        at = at[key]
    if data.draw(st.booleans()):
        at[key] = data.draw(JSON)
    else:
        del at[key]
    loads_or_is_refused(parse, json.dumps(document).encode())


@given(st.sampled_from(DOCUMENTS), st.integers(0, 2000), st.integers(0, 8), st.binary(max_size=8))
def test_documents_with_bytes_changed_load_or_are_refused(
    case: Any, at: int, count: int, replacement: bytes
) -> None:
    parse, document = case
    text = json.dumps(document).encode()
    loads_or_is_refused(parse, text[:at] + replacement + text[at + count :])


# -- Zarr v2


def test_an_array_of_v2_is_described() -> None:
    node = v2_array(filters=[{"id": "delta", "dtype": "<u2"}], order="F")
    assert node == ArrayNode(
        zarr_format=2,
        shape=(5, 7),
        data_type="<u2",
        chunk_shape=(2, 3),
        chunk_keys=V2Encoding("."),
        codecs=(
            Extension("delta", {"id": "delta", "dtype": "<u2"}),
            Extension("zlib", {"id": "zlib", "level": 1}),
        ),
        fill_value=0,
        order="F",
    )
    assert node.chunk_at("2.2") == (2, 2)
    assert node.attributes == {}
    assert node.facts()["order"] == "F"
    assert node.facts()["codecs"] == [
        {"id": "delta", "dtype": "<u2"},
        {"id": "zlib", "level": 1},
    ]


def test_the_dimension_separator_of_v2_counts() -> None:
    assert v2_array(dimension_separator="/").chunk_at("2/2") == (2, 2)
    assert v2_array(dimension_separator="/").chunk_at("2.2") is None


def test_a_structured_data_type_of_v2_passes_through() -> None:
    dtype = [["r", "|u1"], ["pos", "<f4", [2]]]
    assert v2_array(dtype=dtype).data_type == dtype


def test_numbers_that_json_has_not_are_taken_for_strings() -> None:
    document = ARRAY | {"fill_value": float("nan"), "attributes": {"high": float("inf")}}
    node = parse_v3(json.dumps(document).encode())  # as zarr-python writes attributes
    assert isinstance(node, ArrayNode)
    assert (node.fill_value, node.attributes) == ("NaN", {"high": "Infinity"})


def test_members_nobody_knows_are_ignored_in_v2() -> None:
    assert v2_array(later=True) == v2_array()


@pytest.mark.parametrize("token", ["NaN", "Infinity", "-Infinity"])
def test_a_fill_value_of_v2_may_be_a_number_that_json_has_not(token: str) -> None:
    bare = json.dumps(V2_ARRAY).replace('"fill_value": 0', f'"fill_value": {token}').encode()
    assert parse_v2_array(bare) == v2_array(fill_value=token)


@pytest.mark.parametrize("text", ["a: NaN", "[NaN", "a: -Infinity,"])
def test_a_constant_in_a_string_stays_text(text: str) -> None:
    assert v2_array(fill_value=text).fill_value == text


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"zarr_format": 3}, "zarr_format: must be 2, not 3"),
        ({"shape": None}, "shape: must be an array, not null"),
        ({"chunks": [2]}, "chunks: has 1 dimensions, shape has 2"),
        ({"chunks": [2, 0]}, "chunks[1]: must be at least 1, not 0"),
        ({"dtype": []}, "dtype: must not be empty"),
        ({"dtype": None}, "dtype: must be an array, not null"),
        ({"dimension_separator": "_"}, "dimension_separator: must be '/' or '.', not '_'"),
        ({"dimension_separator": None}, "dimension_separator: must be a string, not null"),
        ({"order": "A"}, "order: must be 'C' or 'F', not 'A'"),
        ({"compressor": "zlib"}, "compressor: must be an object, not 'zlib'"),
        ({"compressor": {"level": 1}}, "compressor: id: must be a string, not null"),
        ({"filters": {}}, "filters: must be an array, not an object"),
        ({"filters": [None]}, "filters[0]: must be an object, not null"),
    ],
)
def test_a_refused_array_of_v2_names_the_member(members: dict[str, Any], message: str) -> None:
    with pytest.raises(NodeError) as caught:
        v2_array(**members)
    assert str(caught.value) == f".zarray: {message}"
    assert caught.value.node_type == "array"


@pytest.mark.parametrize("member", ["zarr_format", "shape", "chunks", "dtype"])
def test_a_missing_member_of_v2_is_named(member: str) -> None:
    with pytest.raises(NodeError, match=f"^.zarray: {member}: is missing$"):
        parse_v2_array(without(V2_ARRAY, member))


def test_a_group_of_v2_is_described() -> None:
    assert parse_v2_group(b'{"zarr_format": 2}') == GroupNode(zarr_format=2)


@pytest.mark.parametrize("document", [b"", b"{}", b'{"zarr_format": 3}', b"[2]", DEEP])
def test_a_refused_group_of_v2_starts_with_the_document(document: bytes) -> None:
    with pytest.raises(NodeError, match=r"^\.zgroup: ") as caught:
        parse_v2_group(document)
    assert caught.value.node_type == "group"


def test_attributes_of_zarr_v2_are_those_of_zattrs() -> None:
    zattrs = b'{"unit": "um", "gain": NaN}'
    group = parse_v2_group(b'{"zarr_format": 2}', zattrs)
    assert group.attributes == {"unit": "um", "gain": "NaN"}
    assert parse_v2_group(b'{"zarr_format": 2}').attributes == {}


def test_a_broken_zattrs_shows_when_attributes_are_asked_for() -> None:
    group = parse_v2_group(b'{"zarr_format": 2}', b'{"unit": ')
    with pytest.raises(MetadataError, match="attributes"):
        _ = group.attributes
