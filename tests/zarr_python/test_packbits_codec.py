"""The `packbits` codec inside zarr-python, found through its entry point."""

import json
from typing import Any

import numpy as np
import pytest
import zarr
from zarr.abc.codec import ArrayBytesCodec
from zarr.registry import get_codec_class
from zarr.storage import MemoryStore

from zarrfuse.zarr_python.packbits import PADDING_ENCODINGS, Packing
from zarrfuse.zarr_python.plug_in import PackBitsCodec

TYPES = [
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
]


def pixels(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Any elements of a type; no NaN, so that they can be compared."""
    return np.random.default_rng(1).integers(0, 100, shape).astype(name)


def create(data: np.ndarray, store: Any = None, **members: Any) -> tuple[zarr.Array, Any]:
    """An array of zarr-python in a store, filled with `data`."""
    store = MemoryStore() if store is None else store
    array = zarr.create_array(
        store, shape=data.shape, dtype=data.dtype, compressors=None, **members
    )
    array[:] = data
    return zarr.open_array(store, mode="r"), store


def document(store: Any) -> dict[str, Any]:
    """The `zarr.json` at the root of a store."""
    return json.loads(store._store_dict["zarr.json"].to_bytes())


def test_zarr_python_finds_the_codec() -> None:
    assert get_codec_class("packbits") is PackBitsCodec


@pytest.mark.parametrize("padding_encoding", PADDING_ENCODINGS)
@pytest.mark.parametrize("name", TYPES)
def test_every_type_is_read_as_it_was_written(name: str, padding_encoding: str) -> None:
    data = pixels(name, (7, 9))
    codec = PackBitsCodec(padding_encoding=padding_encoding)
    array, _ = create(data, chunks=(4, 4), serializer=codec)
    assert np.array_equal(array[:], data)
    assert np.array_equal(array[3:6, 2:9:3], data[3:6, 2:9:3])


@pytest.mark.parametrize("name", TYPES)
def test_inside_shards_every_type_is_read_as_it_was_written(name: str) -> None:
    data = pixels(name, (8, 8))
    array, store = create(data, chunks=(2, 2), shards=(4, 4), serializer=PackBitsCodec())
    inner = document(store)["codecs"][0]["configuration"]["codecs"]
    assert [codec["name"] for codec in inner] == ["packbits"]
    assert np.array_equal(array[:], data)
    assert np.array_equal(array[1:5, 3], data[1:5, 3])


def test_an_encoded_chunk_has_the_bytes_of_the_specification() -> None:
    data = np.array([[-1, 0, -8], [7, 1, 2]], "int16")
    _, store = create(data, chunks=(2, 3), serializer=PackBitsCodec(first_bit=0, last_bit=3))
    assert store._store_dict["c/0/0"].to_bytes() == bytes.fromhex("0f 78 21")


def test_a_big_endian_array_is_packed_little_endian() -> None:
    data = np.array([0x1234], ">u2")
    array, store = create(data, chunks=(1,), serializer=PackBitsCodec())
    assert store._store_dict["c/0"].to_bytes() == b"\x34\x12"
    assert array[0] == 0x1234


def test_behind_transpose_elements_are_packed_in_the_new_order() -> None:
    data = pixels("uint8", (4, 6))
    transpose = {"name": "transpose", "configuration": {"order": [1, 0]}}
    array, store = create(data, chunks=(4, 6), filters=[transpose], serializer=PackBitsCodec())
    assert store._store_dict["c/0/0"].to_bytes() == data.T.tobytes()
    assert np.array_equal(array[:], data)


def test_packbits_encodes_the_index_of_shards() -> None:
    data = pixels("uint8", (4, 4))
    sharding = zarr.codecs.ShardingCodec(
        chunk_shape=(2, 2),
        codecs=[PackBitsCodec()],
        index_codecs=[PackBitsCodec(padding_encoding="last_byte"), zarr.codecs.Crc32cCodec()],
    )
    array, store = create(data, chunks=(4, 4), serializer=sharding)
    assert len(store._store_dict["c/0/0"]) == 16 + 4 * 16 + 1 + 4
    assert np.array_equal(array[:], data)


def test_checksum_and_compression_follow_it() -> None:
    data = pixels("bool", (50,))
    store = MemoryStore()
    zarr.create_array(
        store,
        data=data,
        chunks=(20,),
        serializer=PackBitsCodec(padding_encoding="first_byte"),
        compressors=[zarr.codecs.ZstdCodec(), zarr.codecs.Crc32cCodec()],
    )
    assert np.array_equal(zarr.open_array(store, mode="r")[:], data)


@pytest.mark.parametrize(
    ("written", "codec"),
    [
        ({"name": "packbits"}, PackBitsCodec()),
        ({"name": "packbits", "configuration": {}}, PackBitsCodec()),
        (
            {"name": "packbits", "configuration": {"first_bit": None, "last_bit": None}},
            PackBitsCodec(),
        ),
        (
            {
                "name": "packbits",
                "configuration": {
                    "padding_encoding": "last_byte",
                    "first_bit": 1,
                    "last_bit": 3,
                },
            },
            PackBitsCodec(padding_encoding="last_byte", first_bit=1, last_bit=3),
        ),
    ],
)
def test_metadata_is_read_and_written(written: dict[str, Any], codec: PackBitsCodec) -> None:
    assert PackBitsCodec.from_dict(written) == codec
    assert PackBitsCodec.from_dict(codec.to_dict()) == codec
    assert json.loads(json.dumps(codec.to_dict())) == codec.to_dict()


@pytest.mark.parametrize(
    ("configuration", "said"),
    [
        ({"padding_encoding": "no"}, "padding_encoding: must be one of"),
        ({"first_bit": "0"}, "first_bit: must be a bit's number"),
        ({"first_bit": 4, "last_bit": 3}, "last_bit: 3 is less than first_bit"),
        ({"bits": 3}, "bits: is not a member of its configuration"),
        (["first_bit"], "configuration: must be an object"),
    ],
)
def test_wrong_metadata_is_refused_by_its_member(configuration: Any, said: str) -> None:
    with pytest.raises(ValueError, match=f"packbits: {said}"):
        PackBitsCodec.from_dict({"name": "packbits", "configuration": configuration})


def test_bits_that_the_type_lacks_are_refused_when_an_array_is_made() -> None:
    with pytest.raises(ValueError, match="last_bit: 8 is more than 7"):
        create(pixels("uint8", (4,)), chunks=(4,), serializer=PackBitsCodec(last_bit=8))


def test_a_type_that_cannot_be_packed_is_refused_when_an_array_is_made() -> None:
    with pytest.raises(ValueError, match="cannot be packed"):
        zarr.create_array(
            MemoryStore(), shape=(4,), dtype="M8[s]", serializer=PackBitsCodec(), compressors=None
        )


def test_a_chunk_that_is_too_short_is_an_error() -> None:
    data = pixels("uint8", (4,))
    array, store = create(data, chunks=(4,), serializer=PackBitsCodec())
    store._store_dict["c/0"] = store._store_dict["c/0"][:3]
    with pytest.raises(ValueError, match="has 3 bytes, not the 4"):
        array[:]


def test_packbits_is_a_codec_of_fixed_size() -> None:
    assert issubclass(PackBitsCodec, ArrayBytesCodec)
    assert PackBitsCodec.is_fixed_size
    array, store = create(
        pixels("complex64", (5,)), chunks=(5,), serializer=PackBitsCodec(last_bit=10)
    )
    spec = zarr.core.array_spec.ArraySpec(
        (5,),
        array.metadata.data_type,
        0,
        zarr.core.array_spec.ArrayConfig.from_dict({}),
        zarr.core.buffer.default_buffer_prototype(),
    )
    size = PackBitsCodec(last_bit=10).compute_encoded_size(40, spec)
    assert size == len(store._store_dict["c/0"]) == Packing(np.dtype("c8"), 0, 10).encoded_size(5)
