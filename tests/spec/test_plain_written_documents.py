"""What is stored when a `zarr.json` is written to the `plain` view."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import zarr
from builders.concat_parts_examples import CRC32C_EXAMPLE, HEADER_EXAMPLE
from builders.documents import array, concat_parts, default_keys, group, suffix_keys, v2_keys
from hypothesis import given
from hypothesis import strategies as st
from zarr.core.buffer import default_buffer_prototype
from zarr.core.metadata import ArrayV3Metadata

from zarrfuse.errors import Contradiction
from zarrfuse.spec.context import BUILT_IN_URL
from zarrfuse.spec.node import ArrayNode, NodeError
from zarrfuse.spec.node_v3 import parse_v3
from zarrfuse.spec.plain import document, problem
from zarrfuse.spec.plain_writing import stored_document

CASES = json.loads((Path(__file__).parent / "conformance" / "nodes.json").read_text())["cases"]
OFFSET = {"name": "example.offset", "configuration": {"offset": [1, 2]}}
PARTS = [concat_parts(("", 4), ".rest")]


def shown(stored: bytes) -> bytes:
    """What the view shows of a document."""
    return document(parse_v3(stored), stored)


def _loadable() -> list[bytes]:
    written = [json.dumps(case["doc"], indent=1).encode() for case in CASES]
    written += [json.dumps(example).encode() for example in (CRC32C_EXAMPLE, HEADER_EXAMPLE)]
    written += [
        array(keys=suffix_keys(".tiff"), transformers=PARTS, extensions=[OFFSET]),
        array(keys=v2_keys(), attributes={"a": [1, 2.5]}),
        array(foreign={"must_understand": False, "x": 1}),
        group(attributes={"x": {}}),
        group(extensions=[{"name": "foo", "must_understand": False}]),
    ]
    found = []
    for text in written:
        try:
            if problem(parse_v3(text)) is None:
                found.append(text)
        except NodeError:
            pass
    return found


LOADABLE = _loadable()


def edited(stored: bytes, **changes: Any) -> bytes:
    """What the view shows of a document, with other members; None for one that is left out."""
    members = json.loads(shown(stored)) | changes
    return json.dumps({k: v for k, v in members.items() if v is not None}, indent=2).encode()


def merged(stored: bytes, **changes: Any) -> dict[str, Any]:
    """The members that are stored after such an edit; what is shown must be what was written."""
    written = edited(stored, **changes)
    text = stored_document(written, stored)
    assert json.loads(shown(text)) == json.loads(shown(written))
    return dict(json.loads(text))


def test_a_document_where_there_was_none_is_stored_as_given() -> None:
    for written in (array(keys=suffix_keys(".tiff"), transformers=PARTS), b"", b"{", b"\xff"):
        assert stored_document(written, None) is written


@pytest.mark.parametrize("stored", LOADABLE)
def test_what_is_shown_changes_nothing_when_written_back(stored: bytes) -> None:
    assert stored_document(shown(stored), stored) is stored
    assert stored_document(stored, stored) is stored
    compact = json.dumps(json.loads(shown(stored)), separators=(",", ":")).encode()
    assert stored_document(compact, stored) is stored


@given(st.sampled_from([text for text in LOADABLE if b'"array"' in text]), st.data())
def test_a_resize_changes_only_the_shape(stored: bytes, data: st.DataObject) -> None:
    before = json.loads(stored)
    shape = [data.draw(st.integers(0, 10**6)) for _ in before["shape"]]
    written = edited(stored, shape=shape)
    after = json.loads(stored_document(written, stored))
    if before.get("@context") is None and _keeps(before):
        assert after == before | {"shape": shape}
    node = parse_v3(json.dumps(after).encode())
    old = parse_v3(stored)
    assert isinstance(node, ArrayNode) and isinstance(old, ArrayNode)
    assert node.shape == tuple(shape)
    assert (node.chunk_keys, node.parts, node.extensions) == (
        old.chunk_keys,
        old.parts,
        old.extensions,
    )


def _keeps(members: dict[str, Any]) -> bool:
    keys = members["chunk_key_encoding"]
    return bool(members.get("storage_transformers")) or "suffix" in json.dumps(keys)


@given(st.sampled_from(LOADABLE), st.dictionaries(st.text(), st.integers()))
def test_attributes_of_the_written_document_are_stored(
    stored: bytes, attributes: dict[str, int]
) -> None:
    text = stored_document(edited(stored, attributes=attributes), stored)
    assert json.loads(text).get("attributes", {}) == attributes
    assert json.loads(shown(text)) == json.loads(shown(stored)) | {"attributes": attributes}


def test_keys_transformers_extensions_and_foreign_members_stay() -> None:
    foreign = {"must_understand": False, "x": 1}
    stored = array(
        keys=suffix_keys(".tiff"), transformers=PARTS, extensions=[OFFSET], foreign=foreign
    )
    after = merged(
        stored,
        shape=[8, 6],
        fill_value=3,
        attributes={"a": 1},
        dimension_names=None,
        other={"must_understand": False},
    )
    before = json.loads(stored)
    del before["dimension_names"]
    assert after == before | {
        "shape": [8, 6],
        "fill_value": 3,
        "attributes": {"a": 1},
        "other": {"must_understand": False},
    }


def test_a_document_of_which_nothing_has_to_stay_is_stored_as_it_is_written() -> None:
    stored = array()
    written = edited(stored, attributes={"a": 1.50})
    assert stored_document(written, stored) is written


def test_numbers_of_attributes_stay_as_they_are_written() -> None:
    members = json.loads(array(keys=v2_keys())) | {"attributes": {"a": "#"}}
    stored = json.dumps(members).encode().replace(b'"#"', b"1.500")
    assert b'"a": 1.500}' in stored_document(shown(stored).replace(b"4,\n    4\n", b"5, 5"), stored)
    assert b'"a": 1e99999}' in stored_document(shown(stored).replace(b"1.500", b"1e99999"), stored)


@pytest.mark.parametrize("keys", [default_keys(), v2_keys()])
def test_constants_that_are_not_json_stay_where_nothing_changes_them(keys: dict[str, Any]) -> None:
    members = json.loads(array(keys=keys, fill_value=0.5, data_type="float64"))
    members["attributes"] = {"a": [float("nan"), -float("inf")], "b": "constant:NaN"}
    stored = json.dumps(members).encode()
    assert b"[NaN, -Infinity]" in stored
    after = stored_document(edited(stored, shape=[9, 9]), stored)
    assert after == stored.replace(b"[4, 4]", b"[9, 9]")
    written = edited(stored, attributes={"c": float("inf")})
    assert json.loads(stored_document(written, stored))["attributes"] == {"c": float("inf")}


def test_the_layout_is_that_of_the_stored_document() -> None:
    for indent in (2, 4, None):
        stored = json.dumps(json.loads(array(keys=v2_keys())), indent=indent).encode()
        text = stored_document(edited(stored, shape=[9, 9]), stored)
        assert text == json.dumps(json.loads(stored) | {"shape": [9, 9]}, indent=indent).encode()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"node_type": "group"}, "unknown member"),
        ({"zarr_format": 2}, "zarr_format"),
        ({"fill_value": None}, "fill_value: is missing"),
        ({"chunk_key_encoding": v2_keys()}, "chunk_key_encoding: must be"),
        ({"chunk_key_encoding": suffix_keys(".png")}, "chunk_key_encoding: must be"),
        (
            {"storage_transformers": [concat_parts("", (".x", 1))]},
            "storage_transformers: cannot be",
        ),
        (
            {"extensions": [{**OFFSET, "configuration": {"offset": [0, 0]}}]},
            "extensions: cannot be",
        ),
        ({"data_type": "uint16"}, "data_type: cannot be changed"),
        ({"codecs": [{"name": "bytes"}, {"name": "gzip"}]}, "codecs: cannot be changed"),
        (
            {"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4, 1]}}},
            "chunk_grid: cannot be changed",
        ),
        ({"shape": [4]}, "has 2 dimensions, shape has 1"),
    ],
)
def test_what_contradicts_is_refused(changes: dict[str, Any], said: str) -> None:
    stored = array(keys=suffix_keys(".tiff"), transformers=PARTS, extensions=[OFFSET])
    with pytest.raises(Contradiction, match=f"^zarr.json: .*{said}"):
        stored_document(edited(stored, **changes), stored)


@pytest.mark.parametrize("written", [b"", b"{", b"[]", b"\xff", b'{"zarr_format": 3}'])
def test_what_is_no_node_is_refused(written: bytes) -> None:
    with pytest.raises(Contradiction, match=r"^zarr\.json: "):
        stored_document(written, array())


def test_another_type_of_node_is_refused() -> None:
    with pytest.raises(Contradiction, match="node_type: is array"):
        stored_document(group(), array())
    with pytest.raises(Contradiction, match="node_type: is group"):
        stored_document(array(), group())


def test_the_stored_keys_and_transformers_may_be_written_too() -> None:
    stored = array(keys=suffix_keys(".tiff"), transformers=PARTS, extensions=[OFFSET])
    written = json.dumps(json.loads(stored) | {"shape": [9, 9]}).encode()
    assert json.loads(stored_document(written, stored)) == json.loads(written)


def test_without_sized_parts_the_layout_of_chunks_may_change() -> None:
    grid = {"name": "regular", "configuration": {"chunk_shape": [3, 4]}}
    for transformers in ([], [concat_parts(".bin")]):
        stored = array(keys=suffix_keys(".tiff"), transformers=transformers)
        after = merged(
            stored,
            chunk_grid=grid,
            data_type="int16",
            codecs=[{"name": "bytes", "configuration": {"endian": "little"}}],
        )
        assert after["chunk_grid"] == grid
        assert after["chunk_key_encoding"] == suffix_keys(".tiff")
        assert after["storage_transformers"] == transformers


def test_extensions_that_no_longer_fit_are_refused() -> None:
    stored = array(extensions=[OFFSET])
    grid = {"name": "regular", "configuration": {"chunk_shape": [2]}}
    written = edited(stored, shape=[4], chunk_grid=grid, dimension_names=["x"])
    with pytest.raises(Contradiction, match=r"offset.*stay$"):
        stored_document(written, stored)


def test_extensions_may_be_added_where_there_are_none() -> None:
    stored = array(keys=v2_keys())
    assert merged(stored, extensions=[OFFSET])["extensions"] == [OFFSET]


@pytest.mark.parametrize("stored", [b"{", array(storage_transformers=[{"name": "nope"}])])
def test_in_place_of_a_document_that_is_not_loaded_anything_is_stored(stored: bytes) -> None:
    for written in (b"", b"{}", array(keys=v2_keys())):
        assert stored_document(written, stored) is written


def test_a_document_that_lacks_something_can_be_mended() -> None:
    whole = json.loads(array(keys=suffix_keys(".tiff"), transformers=PARTS))
    for member, value in (("fill_value", None), ("codecs", [{"name": "gzip"}])):
        lacking = {**whole, member: value}
        if value is None:
            del lacking[member]
        written = shown(json.dumps(whole).encode())
        after = json.loads(stored_document(written, json.dumps(lacking).encode()))
        assert parse_v3(json.dumps(after).encode()) == parse_v3(json.dumps(whole).encode())


@pytest.mark.parametrize(
    ("context", "codec"),
    [
        (BUILT_IN_URL, "https://zarr.dev/v3/codecs/bytes"),
        ({"z": "https://zarr.dev/v3/codecs/"}, "z:bytes"),
        ({"gzip": "https://zarr.dev/v3/codecs/bytes"}, "gzip"),
    ],
)
def test_a_context_stays_where_it_does_not_change_what_is_written(context: Any, codec: str) -> None:
    members = json.loads(array(keys=v2_keys())) | {"@context": context, "codecs": [codec]}
    members["https://zarr.dev/v3/array/attributes"] = members.pop("attributes", {"a": 1})
    if context != BUILT_IN_URL:
        members["attributes"] = members.pop("https://zarr.dev/v3/array/attributes")
    stored = json.dumps(members).encode()
    after = merged(stored, shape=[9, 9])
    assert after == members | {"shape": [9, 9]}
    after = merged(stored, attributes={"b": 1})
    assert after["@context"] == context
    after = merged(stored, codecs=[{"name": "bytes"}, {"name": "gzip"}])
    assert ("@context" in after) is (codec != "gzip")


def test_zarr_python_resizes_an_array_in_parts_though_it_spells_out_more() -> None:
    parts = [concat_parts("", (".crc32c", 4))]
    for codecs in (
        [{"name": "bytes"}, {"name": "zstd", "configuration": {"level": 1}}, {"name": "crc32c"}],
        [{"name": "bytes"}, {"name": "gzip", "configuration": {"level": 1}}],
        ["bytes", "crc32c"],
    ):
        stored = array(transformers=parts, codecs=codecs)
        metadata = ArrayV3Metadata.from_dict(json.loads(shown(stored))).update_shape((9, 9))
        written = metadata.to_buffer_dict(default_buffer_prototype())["zarr.json"].to_bytes()
        after = json.loads(stored_document(written, stored))
        assert after["shape"] == [9, 9]
        assert after["storage_transformers"] == parts


def test_consolidated_metadata_have_each_document_as_its_node_is_stored() -> None:
    below = {
        "a": array(keys=suffix_keys(".tiff"), transformers=PARTS),
        "g": group(),
        "g/b": array(keys=v2_keys(), extensions=[OFFSET]),
        "other": array(keys=v2_keys(), transformers=PARTS),
    }
    store = zarr.storage.MemoryStore()
    zarr.create_group(store)
    for path, text in below.items():
        data = zarr.core.buffer.cpu.Buffer.from_bytes(shown(text))
        store._store_dict[f"{path}/zarr.json"] = data
    stored = store._store_dict["zarr.json"].to_bytes()
    zarr.consolidate_metadata(store)
    written = store._store_dict["zarr.json"].to_bytes()
    contradicting = array(keys=suffix_keys(".png"))
    entries = json.loads(written)
    entries["consolidated_metadata"]["metadata"]["other"] = json.loads(contradicting)
    entries["consolidated_metadata"]["metadata"]["../a"] = json.loads(below["a"])
    written = json.dumps(entries).encode()

    text = stored_document(written, stored, below.get)
    found = json.loads(text)["consolidated_metadata"]["metadata"]
    for path in ("a", "g/b"):
        assert found[path] == json.loads(below[path])
    assert found["other"] == json.loads(contradicting)
    assert stored_document(shown(text), text, below.get) is text
    assert json.loads(stored_document(edited(text, attributes={"x": 1}), text)) == (
        json.loads(text) | {"attributes": {"x": 1}}
    )


def test_stored_examples_are_left_alone_by_the_merge() -> None:
    example = copy.deepcopy(dict(HEADER_EXAMPLE))
    stored = json.dumps(example).encode()
    assert json.loads(stored_document(edited(stored, attributes={"x": 1}), stored)) == (
        example | {"attributes": {"x": 1}}
    )
