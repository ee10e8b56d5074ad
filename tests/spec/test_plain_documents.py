"""What the `plain` view writes: core Zarr v3, laid out as zarr-python does it."""

import json
import sys
from typing import Any

import pytest
import zarr
from builders.documents import array, concat_parts, group, suffix_keys
from hypothesis import given
from hypothesis import strategies as st
from zarr.storage import MemoryStore

from zarrfuse.spec.node import NodeError
from zarrfuse.spec.node_v3 import parse_v3
from zarrfuse.spec.plain import document, problem

CORE_TYPES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
)


def rewritten(stored: bytes) -> bytes:
    """What `plain` shows in place of a `zarr.json`."""
    node = parse_v3(stored)
    assert problem(node) is None
    return document(node, stored)


def members(stored: bytes) -> dict[str, Any]:
    return dict(json.loads(rewritten(stored)))


def written_by_zarr_python(**options: Any) -> bytes:
    """The `zarr.json` of an array that zarr-python makes."""
    store = MemoryStore()
    options = {"shape": (4, 6), "chunks": (2, 3), "dtype": "uint8", **options}
    zarr.create_array(store, name="a", **options)
    return bytes(store._store_dict["a/zarr.json"].to_bytes())


@pytest.mark.parametrize(
    "options",
    [
        {},
        *({"dtype": name} for name in CORE_TYPES),
        {"dtype": "float32", "fill_value": float("nan")},
        {"dtype": "float64", "fill_value": -float("inf")},
        {"dtype": "float64", "fill_value": 1e22},
        {"dtype": "complex64", "fill_value": complex(1, float("nan"))},
        {"dtype": ">u2"},
        {"dtype": "M8[ns]"},
        {"dtype": "str"},
        {"dtype": "U5"},
        {"shape": (), "chunks": ()},
        {"shape": (0, 3), "chunks": (1, 3)},
        {"shards": (4, 6)},
        {"dimension_names": ("\u00fc", None)},
        {"attributes": {"b": 1.5, "a": {"x": [], "y": {}, "\u00e9\u2028\U0001f600": "\\/\n\x01"}}},
        {"compressors": None},
        {"compressors": zarr.codecs.BloscCodec(cname="lz4", shuffle="bitshuffle")},
        {"compressors": [zarr.codecs.GzipCodec(level=3), zarr.codecs.Crc32cCodec()]},
        {"compressors": zarr.codecs.numcodecs.Zlib()},
        {"filters": zarr.codecs.TransposeCodec(order=(1, 0))},
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore")  # some of these types have no specification yet
def test_a_plain_array_of_zarr_python_stays_as_it_is(options: dict[str, Any]) -> None:
    stored = written_by_zarr_python(**options)
    assert rewritten(stored) == stored


def test_a_group_of_zarr_python_stays_as_it_is() -> None:
    store = MemoryStore()
    top = zarr.create_group(store, attributes={"z": [1, {"a": None}], "a": {}})
    below = top.create_group("below")
    below.create_array("a", shape=(2,), chunks=(1,), dtype="float32", attributes={"x": 1})
    zarr.consolidate_metadata(store)
    for key in ("zarr.json", "below/zarr.json"):
        stored = bytes(store._store_dict[key].to_bytes())
        assert rewritten(stored) == stored


def test_every_chunk_key_is_of_the_default_encoding() -> None:
    said = members(array(keys=suffix_keys(".tiff")))
    assert said["chunk_key_encoding"] == {"name": "default", "configuration": {"separator": "/"}}


def test_transformers_extensions_and_what_may_be_ignored_are_left_out() -> None:
    stored = array(
        transformers=[concat_parts("", ".index"), {"name": "x.y", "must_understand": False}],
        extensions=[{"name": "x.z", "must_understand": False}],
        unknown={"must_understand": False, "a": 1},
    )
    said = members(stored)
    assert said["storage_transformers"] == []
    assert not said.keys() & {"extensions", "unknown"}
    assert members(group(other={"must_understand": False})) == {
        "attributes": {},
        "zarr_format": 3,
        "node_type": "group",
    }


def test_short_hand_names_are_spelled_out() -> None:
    shard = {
        "name": "sharding_indexed",
        "must_understand": True,
        "configuration": {
            "chunk_shape": [1, 1],
            "codecs": ["bytes", {"configuration": {"level": 1}, "name": "gzip"}],
            "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, "crc32c"],
        },
    }
    said = members(array(codecs=[shard, "crc32c"], chunk_key_encoding="default"))
    assert said["codecs"] == [
        {
            "name": "sharding_indexed",
            "configuration": {
                "chunk_shape": [1, 1],
                "codecs": [{"name": "bytes"}, {"name": "gzip", "configuration": {"level": 1}}],
                "index_codecs": [
                    {"name": "bytes", "configuration": {"endian": "little"}},
                    {"name": "crc32c"},
                ],
            },
        },
        {"name": "crc32c"},
    ]


@pytest.mark.parametrize(
    "written, shown",
    [
        ("uint8", "uint8"),
        ({"name": "uint8"}, "uint8"),
        ({"name": "uint8", "configuration": {}, "must_understand": True}, "uint8"),
        ("r24", "r24"),
        (
            {"configuration": {"unit": "s", "scale_factor": 1}, "name": "numpy.datetime64"},
            {"name": "numpy.datetime64", "configuration": {"unit": "s", "scale_factor": 1}},
        ),
    ],
)
def test_a_data_type_is_its_name_where_that_says_it_all(written: Any, shown: Any) -> None:
    assert members(array(data_type=written))["data_type"] == shown


def test_only_an_unknown_codec_keeps_that_it_need_not_be_understood() -> None:
    known = {"name": "crc32c", "must_understand": False}
    unknown = {"name": "x.codec", "must_understand": False}
    said = members(array(codecs=["bytes", known, unknown]))
    assert said["codecs"] == [{"name": "bytes"}, {"name": "crc32c"}, unknown]


def test_attributes_keep_order_and_numbers() -> None:
    attributes = b'{"z": 1e2, "a": 12345678901234567890123, "m": 0.1}'
    stored = array().replace(b'"codecs"', b'"attributes": ' + attributes + b', "codecs"')
    assert b'"z": 100.0' not in rewritten(stored)
    said = members(stored)["attributes"]
    assert list(said) == ["z", "a", "m"]
    assert said == json.loads(attributes)


def test_attributes_that_can_be_read_can_be_written_however_deep_they_are() -> None:
    shown = []
    for depth in range(sys.getrecursionlimit() + 1):
        deep = b'{"a":' * depth + b"{}" + b"}" * depth
        stored = array().replace(b'"codecs"', b'"attributes": ' + deep + b', "codecs"')
        try:
            node = parse_v3(stored)
        except NodeError:
            break
        if depth > 900:
            shown.append(b"".join(document(node, stored).split()))
            assert deep in shown[-1]
    assert shown


@pytest.mark.parametrize(
    "stored, clause",
    [
        (array(fill_value=None), None),
        (array(codecs=["bytes"]), None),
        (array(codecs=["x.unknown"]), None),
        (array(codecs=[]), "codecs: must include an array->bytes codec"),
        (array(codecs=["zstd", "crc32c"]), "codecs: must include an array->bytes codec"),
        (group(), None),
    ],
)
def test_what_nobody_could_decode_has_a_problem(stored: bytes, clause: str | None) -> None:
    assert problem(parse_v3(stored)) == clause


def test_an_array_without_a_fill_value_has_a_problem() -> None:
    stored = array().replace(b'"fill_value": 0, ', b"")
    assert problem(parse_v3(stored)) == "fill_value: is missing"


OFFSET = {"name": "example.offset", "configuration": {"offset": [3, 4]}}
REFERENCE = {"name": "example.offset", "configuration": {"reference": ".."}}


def test_an_extension_that_is_understood_is_left_out() -> None:
    assert members(array(extensions=[OFFSET])) == members(array())


def test_names_of_a_context_are_spelled_out() -> None:
    uri = "https://zarr.dev/v3/codecs/bytes"
    said = members(array(**{"@context": {"b": uri}, "codecs": ["b"]}))
    assert "@context" not in said
    assert said["codecs"] == members(array(codecs=["bytes"]))["codecs"]


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("member", ["fill_value", "data_type", "codecs"])
def test_what_is_nested_too_deeply_to_be_written_has_a_problem(member: str) -> None:
    def holding(value: Any) -> bytes:
        configured = {"name": "x.y", "configuration": {"a": value}}
        values = {"fill_value": value, "data_type": configured, "codecs": ["bytes", configured]}
        return array(**{member: values[member]})

    assert problem(parse_v3(holding(nested(900)))) == (f"{member}: is nested more than 100 deep")
    assert json.dumps(nested(90)) in "".join(rewritten(holding(nested(90))).decode().split())


def consolidated(entries: dict[str, bytes], **members: Any) -> bytes:
    """A group with inline consolidated metadata."""
    inline = {
        "kind": "inline",
        "must_understand": False,
        "metadata": {path: json.loads(entry) for path, entry in entries.items()},
        **members,
    }
    return group(consolidated_metadata=inline)


def test_consolidated_metadata_says_what_the_documents_say() -> None:
    child = array(keys=suffix_keys(".tiff"), transformers=[concat_parts("", ".x")])
    inner = consolidated({"a": child})
    stored = consolidated({"g": inner, "g/a": child})
    metadata = members(stored)["consolidated_metadata"]["metadata"]
    assert list(metadata) == ["g", "g/a"]
    assert metadata["g/a"] == members(child)
    assert metadata["g"] == members(inner)
    assert metadata["g"]["consolidated_metadata"]["metadata"]["a"] == members(child)


@pytest.mark.parametrize(
    "stored",
    [
        consolidated({"a": array(), "b": array(codecs=[])}),
        consolidated({"a": array(fill_value=nested(200))}),
        consolidated({"a": array(), "b": array(extensions=["x.unknown"])}),
        consolidated({"a": array(extensions=[REFERENCE])}),
        consolidated({"a": array()}, kind="elsewhere"),
        consolidated({"a": array()}, more=1),
        group(consolidated_metadata={"must_understand": False}),
        group(consolidated_metadata=None),
        consolidated({"a": b'{"zarr_format": 2}'}),
    ],
)
def test_consolidated_metadata_that_cannot_be_rewritten_is_dropped(stored: bytes) -> None:
    assert members(stored) == members(group())


def test_consolidated_metadata_nested_without_end_is_dropped() -> None:
    stored = group()
    for _ in range(100):
        stored = consolidated({"g": stored})
    assert rewritten(stored)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(
    shape=st.lists(st.integers(0, 9), max_size=3),
    attributes=st.dictionaries(st.text(max_size=5), json_values, max_size=4),
    names=st.booleans(),
    fill_value=st.integers(0, 255),
)
def test_what_is_written_is_plain_and_means_the_same(
    shape: list[int], attributes: dict[str, Any], names: bool, fill_value: int
) -> None:
    more = {} if names else {"dimension_names": None}
    stored = array(shape, attributes=attributes, fill_value=fill_value, **more)
    shown = rewritten(stored)
    assert rewritten(shown) == shown
    before, after = parse_v3(stored), parse_v3(shown)
    assert after == before
    assert after.attributes == before.attributes == attributes
    assert shown == json.dumps(json.loads(shown), indent=2).encode()
