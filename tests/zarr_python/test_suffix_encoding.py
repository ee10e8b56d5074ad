"""The `suffix` chunk key encoding inside zarr-python, found through its entry point."""

import json
import pickle
from typing import Any

import numpy as np
import pytest
import zarr
from builders.documents import default_keys, suffix_keys, v2_keys
from hypothesis import given
from hypothesis import strategies as st
from zarr.core.chunk_key_encodings import DefaultChunkKeyEncoding, V2ChunkKeyEncoding
from zarr.registry import get_chunk_key_encoding_class
from zarr.storage import MemoryStore

from zarrfuse.zarr_python.plug_in import SuffixChunkKeyEncoding


def test_zarr_python_finds_the_encoding() -> None:
    assert get_chunk_key_encoding_class("suffix") is SuffixChunkKeyEncoding


@pytest.mark.parametrize(
    ("base", "keys"),
    [
        (default_keys(), {"c/0/0.tiff", "c/0/1.tiff", "c/1/0.tiff", "c/1/1.tiff"}),
        (default_keys("."), {"c.0.0.tiff", "c.0.1.tiff", "c.1.0.tiff", "c.1.1.tiff"}),
        (v2_keys(), {"0.0.tiff", "0.1.tiff", "1.0.tiff", "1.1.tiff"}),
        (suffix_keys(".z"), {f"c/{i}/{j}.z.tiff" for i in (0, 1) for j in (0, 1)}),
    ],
)
def test_zarr_python_writes_and_reads_chunks_under_the_keys(
    base: dict[str, Any], keys: set[str]
) -> None:
    store, data = MemoryStore(), np.arange(16).reshape(4, 4)
    zarr.create_array(
        store, data=data, chunks=(2, 2), chunk_key_encoding=suffix_keys(".tiff", base)
    )
    assert store._store_dict.keys() == {"zarr.json", *keys}
    written = json.loads(store._store_dict["zarr.json"].to_bytes())
    assert written["chunk_key_encoding"] == suffix_keys(".tiff", base)
    assert np.array_equal(zarr.open_array(store, mode="r")[:], data)


@pytest.mark.parametrize("spelling", ["base_encoding", "base-encoding"])
def test_either_spelling_of_the_base_is_read_and_one_is_written(spelling: str) -> None:
    written = {"name": "suffix", "configuration": {"suffix": ".zip", spelling: v2_keys()}}
    encoding = SuffixChunkKeyEncoding.from_dict(written)
    assert encoding.to_dict() == suffix_keys(".zip", v2_keys())
    assert encoding.encode_chunk_key((1, 2)) == "1.2.zip"


@pytest.mark.parametrize(
    "base", [None, "default", default_keys(), DefaultChunkKeyEncoding(separator="/")]
)
def test_an_encoding_is_made_by_hand_in_several_ways(base: Any) -> None:
    encoding = SuffixChunkKeyEncoding(".tiff", base)
    assert encoding == SuffixChunkKeyEncoding.from_dict(suffix_keys(".tiff"))
    assert hash(encoding) == hash(SuffixChunkKeyEncoding(".tiff"))
    assert encoding != SuffixChunkKeyEncoding(".tiff", V2ChunkKeyEncoding())


def test_an_encoding_object_is_taken_when_an_array_is_made() -> None:
    store = MemoryStore()
    encoding = SuffixChunkKeyEncoding(".bin", V2ChunkKeyEncoding(separator="/"))
    zarr.create_array(store, data=np.ones(3), chunks=(3,), chunk_key_encoding=encoding)
    assert "0.bin" in store._store_dict


@given(
    st.text("abc._-", min_size=1).map(".".__add__),
    st.sampled_from([default_keys("/"), default_keys("."), v2_keys("."), v2_keys("/")]),
    st.lists(st.integers(0, 10**6), min_size=1, max_size=4),
)
def test_metadata_and_keys_come_back_as_they_were(
    suffix: str, base: dict[str, Any], coords: list[int]
) -> None:
    encoding = SuffixChunkKeyEncoding(suffix, base)
    assert SuffixChunkKeyEncoding.from_dict(encoding.to_dict()) == encoding
    assert pickle.loads(pickle.dumps(encoding)) == encoding
    key = encoding.encode_chunk_key(tuple(coords))
    assert encoding.decode_chunk_key(key) == tuple(coords)


@pytest.mark.parametrize("key", ["c/0/0", "c/01/0.tiff", "c/.tiff", "x.tiff", ""])
def test_what_is_no_chunk_key_is_not_decoded(key: str) -> None:
    with pytest.raises(ValueError, match="is not the key of a chunk"):
        SuffixChunkKeyEncoding(".tiff").decode_chunk_key(key)


@pytest.mark.parametrize(
    ("configuration", "said"),
    [
        ({}, "configuration: suffix: is missing"),
        ({"suffix": ""}, "configuration: suffix: must not be empty"),
        ({"suffix": "/zarr.json"}, "which are metadata"),
        ({"suffix": ".t", "base_encoding": "x"}, "'x' is not known here"),
        (
            {"suffix": ".t", "base_encoding": "v2", "base-encoding": "v2"},
            "must not be given together",
        ),
    ],
)
def test_wrong_metadata_is_refused_by_its_member(configuration: Any, said: str) -> None:
    written = {"name": "suffix", "configuration": configuration}
    with pytest.raises(ValueError, match=said):
        zarr.create_array(MemoryStore(), shape=(4,), dtype="u1", chunk_key_encoding=written)


def test_another_encoding_is_no_suffix() -> None:
    with pytest.raises(ValueError, match="must be 'suffix', not 'v2'"):
        SuffixChunkKeyEncoding.from_dict(v2_keys())
