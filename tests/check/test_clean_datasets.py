"""What zarr-python itself writes has nothing wrong with it, read whole or not."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pytest
import zarr
from finding_lines import lines
from zarr.codecs import (
    BloscCodec,
    BytesCodec,
    Crc32cCodec,
    GzipCodec,
    ShardingCodec,
    TransposeCodec,
    ZstdCodec,
)

IMAGE = np.arange(30 * 20).reshape(30, 20)

TYPES = [
    "bool",
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    "float16",
    "float32",
    "float64",
    "complex64",
    "complex128",
]


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("data_type", TYPES)
def test_an_array_of_each_type(tmp_path: Path, data_type: str, zarr_format: Any) -> None:
    array = zarr.create_array(
        tmp_path / "a", shape=(30, 20), chunks=(8, 8), dtype=data_type, zarr_format=zarr_format
    )
    array[:] = IMAGE.astype(data_type)
    assert lines(tmp_path) == []


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize(
    "data_type", ["<U5", "|S3", "datetime64[ns]", "timedelta64[s]", "|V4", "T", ">i4", "i4,f8"]
)
def test_an_array_of_a_type_that_is_not_core(
    tmp_path: Path, data_type: str, zarr_format: Any
) -> None:
    dtype: Any = np.dtypes.StringDType() if data_type == "T" else np.dtype(data_type)
    array = zarr.create_array(
        tmp_path / "a", shape=(30,), chunks=(8,), dtype=dtype, zarr_format=zarr_format
    )
    array[:] = np.zeros(30, dtype)
    assert lines(tmp_path) == []


@pytest.mark.parametrize(
    "settings",
    [
        {"compressors": None},
        {"compressors": [BloscCodec()]},
        {"compressors": [GzipCodec(), Crc32cCodec()]},
        {"compressors": [Crc32cCodec()]},
        {"compressors": [Crc32cCodec(), Crc32cCodec()]},
        {"filters": [TransposeCodec(order=(1, 0))], "compressors": [ZstdCodec()]},
        {"serializer": BytesCodec(endian="big")},
        {"shards": (16, 16)},
        {"shards": (16, 16), "compressors": [Crc32cCodec()]},
        {"shards": (16, 16), "compressors": None},
        {"chunk_key_encoding": {"name": "v2", "separator": "."}},
        {"chunk_key_encoding": {"name": "v2", "separator": "/"}},
        {"chunk_key_encoding": {"name": "default", "separator": "."}},
        {"dimension_names": ["y", "x"], "attributes": {"zarr": [1, None]}},
        {"fill_value": 7},
        {
            "chunks": (16, 16),
            "serializer": ShardingCodec(chunk_shape=(8, 8), index_location="start"),
            "compressors": None,
        },
        {
            "chunks": (16, 16),
            "serializer": ShardingCodec(
                chunk_shape=(8, 8),
                codecs=[ShardingCodec(chunk_shape=(4, 4), codecs=[BytesCodec(), Crc32cCodec()])],
            ),
            "compressors": [Crc32cCodec()],
        },
        {
            "chunks": (16, 8),
            "filters": [TransposeCodec(order=(1, 0))],
            "serializer": ShardingCodec(chunk_shape=(8, 4)),
            "compressors": None,
        },
    ],
)
@pytest.mark.filterwarnings("ignore:Combining")
def test_an_array_of_zarr_v3(tmp_path: Path, settings: dict[str, Any]) -> None:
    chosen = {"chunks": (8, 8), "fill_value": 0, **settings}
    array = zarr.create_array(tmp_path / "a", shape=(30, 20), dtype="uint16", **chosen)
    array[:] = IMAGE
    array[:16, :8] = chosen["fill_value"]
    assert lines(tmp_path) == []


@pytest.mark.parametrize(
    "settings",
    [
        {"compressors": None},
        {"compressors": numcodecs.Zlib()},
        {"compressors": numcodecs.Blosc()},
        {"compressors": numcodecs.CRC32C()},
        {"filters": [numcodecs.Delta("<u2")], "compressors": None},
        {"order": "F"},
        {"chunk_key_encoding": {"name": "v2", "separator": "/"}},
        {"fill_value": None},
        {"attributes": {"a": 1}},
    ],
    ids=str,
)
def test_an_array_of_zarr_v2(tmp_path: Path, settings: dict[str, Any]) -> None:
    array = zarr.create_array(
        tmp_path / "a", shape=(30, 20), chunks=(8, 8), dtype="uint16", zarr_format=2, **settings
    )
    array[:] = IMAGE
    assert lines(tmp_path) == []


@pytest.mark.parametrize("shape", [(), (0,), (0, 4), (1,), (2, 3, 4, 5)])
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_an_array_of_any_shape(tmp_path: Path, shape: tuple[int, ...], zarr_format: Any) -> None:
    array = zarr.create_array(tmp_path / "a", shape=shape, dtype="i4", zarr_format=zarr_format)
    array[...] = 3
    assert lines(tmp_path) == []


@pytest.mark.parametrize("fill_value", [np.nan, np.inf, -np.inf, 0.1, -0.0])
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_an_array_of_any_fill_value(tmp_path: Path, fill_value: float, zarr_format: Any) -> None:
    settings = {"shape": 3, "fill_value": fill_value, "zarr_format": zarr_format}
    for data_type in ("float16", "float64", "complex64"):
        zarr.create_array(tmp_path / data_type, dtype=data_type, **settings)
    assert lines(tmp_path) == []


def write_hierarchy(folder: Path, zarr_format: Any) -> None:
    root = zarr.open_group(folder, mode="w", zarr_format=zarr_format)
    root.attrs["title"] = "everything"
    for name in ("a", "b/c", "b/d/e"):
        array = root.create_array(
            name, shape=(30, 20), chunks=(8, 8), dtype="float32", fill_value=np.nan
        )
        array[:9] = 1
        array.attrs["name"] = name
    if zarr_format == 3:
        root.create_array("b/s", shape=(32, 32), shards=(16, 16), chunks=(8, 8), dtype="i2")[:] = 5


@pytest.mark.filterwarnings("ignore:Consolidated metadata")
@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("path", [None, "b"])
def test_a_consolidated_hierarchy(tmp_path: Path, zarr_format: Any, path: str | None) -> None:
    write_hierarchy(tmp_path / "data", zarr_format)
    zarr.consolidate_metadata(tmp_path / "data", path=path)
    if path is not None:
        zarr.consolidate_metadata(tmp_path / "data")
    assert lines(tmp_path) == []
    assert lines(tmp_path / "data") == []


@pytest.mark.parametrize("resize", [(10, 10), (50, 7)])
def test_an_array_that_was_resized(tmp_path: Path, resize: tuple[int, int]) -> None:
    array = zarr.create_array(tmp_path / "a", shape=(30, 20), chunks=(8, 8), dtype="i4")
    array[:] = IMAGE
    array.resize(resize)
    assert lines(tmp_path) == []


@pytest.mark.parametrize("write", [write_hierarchy])
def test_a_zip(tmp_path: Path, write: Callable[[Path, Any], None]) -> None:
    with zarr.storage.ZipStore(tmp_path / "a.zip", mode="w") as store:
        array = zarr.create_array(store, name="x", shape=(30, 20), chunks=(8, 8), dtype="i4")
        array[:] = IMAGE
    assert lines(tmp_path / "a.zip") == []
