r"""Lone surrogates, such as `"\ud800"`: read as Python's `json` reads them, wherever they stand."""

import json
from typing import Any

import pytest
from builders.documents import array, group, v2_array
from builders.fake_stores import MemoryStore
from hypothesis import given, settings
from hypothesis import strategies as st

from zarrfuse.check.survey import Survey
from zarrfuse.errors import MetadataError
from zarrfuse.spec.members import decode_as_written, decode_document, decode_raw, take_member
from zarrfuse.spec.node import ArrayNode, NodeError
from zarrfuse.spec.node_v2 import parse_v2_array, parse_v2_group
from zarrfuse.spec.node_v3 import parse_v3
from zarrfuse.spec.plain import document
from zarrfuse.spec.plain_v2 import as_v3
from zarrfuse.spec.plain_writing import stored_document
from zarrfuse.stores.base import Store

LONE = ["\ud800", "\udfff", "x\udc80y", "\ud800\ud800", "\udc00\ud800", "\U0001f600\ud83d"]


def values(members: dict[str, Any]) -> dict[str, Any]:
    return {name: decode_raw(raw, name) for name, raw in members.items()}


@pytest.mark.parametrize("text", LONE, ids=ascii)
def test_value_is_that_of_json(text: str) -> None:
    value = {"a": text, "b": [1.5, {"c" + text: None}], "c": "plain \\ud800 \U00010000"}
    written = json.dumps(value).encode()
    assert values(decode_as_written(written)) == value
    assert values(decode_document(written)) == value


def test_other_escapes_stay_what_they_are() -> None:
    written = (
        rb'{"lone":"\uD800","pair":"\uD83D\uDE00","text":"\\ud800","three":"\\\ud800","n":"\n"}'
    )
    assert values(decode_document(written)) == json.loads(written)


def test_one_in_the_name_of_a_member_is_replaced_in_all_members() -> None:
    members = decode_as_written(rb'{"\ud800":1,"ome":{"name":"\udc00","pair":"\ud83d\ude00"}}')
    assert values(members) == {"\ufffd": 1, "ome": {"name": "\ufffd", "pair": "\U0001f600"}}


def test_surrogates_as_bytes_are_read_as_json_reads_them_and_are_no_utf_8() -> None:
    written = b'{"a":"\xed\xa0\x80"}'
    assert values(decode_as_written(written)) == json.loads(written) == {"a": "\ud800"}
    with pytest.raises(MetadataError, match="is not UTF-8 at byte 6"):
        decode_document(written)


@pytest.mark.parametrize(
    "written",
    [
        b'{"a":"\\ud800}',
        b'{"a":"\\ud800"',
        b'{"a":"\\ud80"}',
        b'{"a":"\\ud800\xff"}',
        b'["\\ud800"]',
        b'{"a":"\\ud800"}}',
        b'{"a":"\\ud800\n"}',
        b"\\ud800",
        b'{"a":' + b"[" * 100_000 + b'"\\ud800"' + b"]" * 100_000 + b"}",
    ],
)
def test_what_is_broken_besides_is_refused(written: bytes) -> None:
    for decode in (decode_document, decode_as_written):
        with pytest.raises(MetadataError):
            take_member(decode(written), "a")


@pytest.mark.parametrize("number", ["1e999", "NaN", "-Infinity"])
def test_numbers_beyond_floats_are_refused_beside_them_too(number: str) -> None:
    with pytest.raises(MetadataError):
        take_member(decode_document(f'{{"a":["\\ud800",{number}]}}'.encode()), "a")


@settings(max_examples=100, deadline=None)
@given(
    st.recursive(
        st.text(st.characters(exclude_categories=[]), max_size=5) | st.integers(-5, 5),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=3), inner),
    )
)
def test_any_value_that_json_writes_reads_alike(value: Any) -> None:
    written = json.dumps({"value": value}).encode()
    expected = json.loads(written)
    assert values(decode_as_written(written)) == expected


ATTRIBUTES = {"label": "a\ud800b", "ome": {"name": "\udcff"}, "number": 1.50}


def test_node_with_one_is_loaded() -> None:
    node = parse_v3(group(attributes=ATTRIBUTES))
    assert node.attributes == ATTRIBUTES
    found = parse_v3(array(dimension_names=["y\ud800", "x"], attributes=ATTRIBUTES))
    assert isinstance(found, ArrayNode)
    assert found.dimension_names == ("y\ud800", "x")
    assert found.attributes == ATTRIBUTES


def test_node_of_zarr_v2_with_one_is_loaded() -> None:
    attributes = json.dumps(ATTRIBUTES).encode()
    assert parse_v2_group(b'{"zarr_format":2}', attributes).attributes == ATTRIBUTES
    assert parse_v2_array(v2_array(), attributes).attributes == ATTRIBUTES


@pytest.mark.parametrize(
    "members",
    [
        {"data_type": "\ud800"},
        {"chunk_key_encoding": {"name": "suffix", "configuration": {"suffix": ".\ud800"}}},
        {
            "storage_transformers": [
                {"name": "concat-parts", "configuration": {"parts": [{"key_suffix": ".\udcff"}]}}
            ]
        },
    ],
)
def test_names_and_keys_may_not_hold_one(members: dict[str, Any]) -> None:
    with pytest.raises(NodeError) as caught:
        parse_v3(array(**members))
    str(caught.value).encode()  # shown escaped


def test_plain_document_has_it_as_json_writes_it() -> None:
    written = array(dimension_names=["y\ud800", "x"], attributes=ATTRIBUTES)
    shown = document(parse_v3(written), written)
    assert json.loads(shown)["attributes"] == ATTRIBUTES
    assert json.loads(shown)["dimension_names"] == ["y\ud800", "x"]
    assert rb'"a\ud800b"' in shown
    assert b"1.5" in shown  # not laid out by way of values


def test_plain_document_of_zarr_v2_has_it() -> None:
    attributes = json.dumps({**ATTRIBUTES, "_ARRAY_DIMENSIONS": ["y\ud800", "x"]}).encode()
    shown = document(as_v3(parse_v2_array(v2_array(), attributes)))
    assert json.loads(shown)["attributes"] == {**ATTRIBUTES, "_FillValue": 0}
    assert json.loads(shown)["dimension_names"] == ["y\ud800", "x"]


def test_consolidated_metadata_with_one_is_shown() -> None:
    inner = json.loads(array(attributes=ATTRIBUTES))
    consolidated = {"kind": "inline", "must_understand": False, "metadata": {"a": inner}}
    written = group(consolidated_metadata=consolidated)
    shown = json.loads(document(parse_v3(written), written))
    assert shown["consolidated_metadata"]["metadata"]["a"]["attributes"] == ATTRIBUTES


def test_document_written_in_plain_is_stored_with_it() -> None:
    parts = {"name": "concat-parts", "configuration": {"parts": [{"key_suffix": ".a"}]}}
    stored = array(transformers=[parts], attributes={"old": "\ud800"})
    written = array(attributes=ATTRIBUTES)
    found = json.loads(stored_document(written, stored))
    assert found["attributes"] == ATTRIBUTES
    assert found["storage_transformers"] == [parts]
    kept = stored_document(document(parse_v3(stored), stored), stored)
    assert json.loads(kept) == json.loads(stored)


def test_check_warns_and_goes_on() -> None:
    store: Store = MemoryStore(
        {"zarr.json": group(attributes=ATTRIBUTES), "a/zarr.json": array(data_type="none")}
    )
    found = [(f.level, f.path, f.problem) for f in Survey(store).findings(deep=False)]
    assert ("warning", "zarr.json") in [finding[:2] for finding in found]
    assert "lone surrogate" in found[0][2]
    assert any(path == "a/zarr.json" for _, path, _ in found)
