"""Shards written as HDF5 files: a header of one size, then only chunks, opened by h5py and zarr-python."""

import pickle
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin  # noqa: F401  # h5py reads zstd
import numcodecs
import numpy as np
import pytest
from builders.hdf5_arrays import pixels_of, read_file, store_array

from zarrfuse.exporting.hdf5_shards import Hdf5Shards, hdf5_shards
from zarrfuse.shards.hdf5_filters import Filter, filters_of
from zarrfuse.shards.index import shard_index
from zarrfuse.shards.layout import MISSING, FileArray, Layout, Refused, codecs_text, grid_of

pytestmark = pytest.mark.filterwarnings("ignore::zarr.errors.ZarrUserWarning")

SHAPE, INNER = (16, 24, 32), (4, 8, 8)
SCALE = dict.fromkeys("zyx", (0.5, "micrometer"))
LITTLE = {"name": "bytes", "configuration": {"endian": "little"}}
BIG = {"name": "bytes", "configuration": {"endian": "big"}}
ZLIB = {"name": "numcodecs.zlib", "configuration": {"level": 5}}
SHUFFLE = {"name": "numcodecs.shuffle", "configuration": {"elementsize": 2}}
ZSTD = {"name": "zstd", "configuration": {"level": -2, "checksum": False}}
FLETCHER32 = {"name": "numcodecs.fletcher32", "configuration": {}}
BZ2 = {"name": "numcodecs.bz2", "configuration": {"level": 4}}
CHAINS = {
    "none": [LITTLE],
    "big": [BIG],
    "deflate": [LITTLE, ZLIB],
    "big deflate": [BIG, SHUFFLE, ZLIB],
    "shuffle": [LITTLE, SHUFFLE, ZLIB],
    "checksum": [LITTLE, SHUFFLE, ZLIB, FLETCHER32],
    "zstd": [LITTLE, ZSTD],
    "shuffle zstd": [LITTLE, SHUFFLE, ZSTD],
    "bzip2": [LITTLE, BZ2],
}
ENCODERS: dict[str, Callable[[bytes], bytes]] = {
    "numcodecs.zlib": lambda data: zlib.compress(data, 5),
    "numcodecs.shuffle": lambda data: bytes(numcodecs.Shuffle(2).encode(data)),
    "numcodecs.fletcher32": lambda data: bytes(numcodecs.Fletcher32().encode(data)),
    "numcodecs.bz2": lambda data: bytes(numcodecs.BZ2(4).encode(data)),
    "zstd": lambda data: bytes(numcodecs.Zstd(-2).encode(data)),
}


def layout_of(codecs: list[dict[str, Any]], **members: Any) -> Layout:
    of = {"data_type": "uint16", "axes": ("z", "y", "x"), "inner_shape": INNER, "fill_value": 7}
    return Layout(**{**of, "codecs": codecs_text(codecs), **members})


def pixels(shape: tuple[int, ...], missing: tuple[tuple[int, ...], ...] = ()) -> np.ndarray:
    """Pixels, which are the fill value in inner chunks that are `missing`."""
    data = np.random.default_rng(2).integers(0, 900, shape).astype("<u2")
    for at in missing:
        data[tuple(slice(i * n, i * n + n) for i, n in zip(at, INNER, strict=True))] = 7
    return data


def write(
    shards: Hdf5Shards,
    path: Path,
    chunks: list[bytes | None],
    *,
    shape: tuple[int, ...] | None = None,
) -> FileArray:
    """A file of these inner chunks, in C order; None for those that are missing."""
    places = np.ndindex(*grid_of(shape or shards.shape, shards.layout.inner_shape))
    stored = [pair for pair in zip(places, chunks, strict=True) if pair[1] is not None]
    return shards.write(path, stored, shape=shape)


def encoded(data: np.ndarray, codecs: list[dict[str, Any]]) -> list[bytes | None]:
    """Inner chunks in C order, filled up at the edges; None for those of fill values."""
    chunks: list[bytes | None] = []
    for at in np.ndindex(*grid_of(data.shape, INNER)):
        chunk = np.full(INNER, 7, "<u2")
        part = data[tuple(slice(i * n, i * n + n) for i, n in zip(at, INNER, strict=True))]
        chunk[tuple(slice(n) for n in part.shape)] = part
        order = ">" if codecs[0] == BIG else "<"
        body = chunk.astype(chunk.dtype.newbyteorder(order)).tobytes()
        for codec in codecs[1:]:
            body = ENCODERS[codec["name"]](body)
        chunks.append(None if (chunk == 7).all() else body)
    return chunks


def writer(codecs: list[dict[str, Any]], **members: Any) -> Hdf5Shards:
    return hdf5_shards(layout_of(codecs, **members), SHAPE, scale=SCALE)


@pytest.mark.parametrize("chain", CHAINS)
def test_h5py_and_zarr_python_read_what_was_encoded(tmp_path: Path, chain: str) -> None:
    codecs = CHAINS[chain]
    data = pixels(SHAPE, missing=((0, 0, 0), (3, 2, 3), (1, 1, 1)))
    shards = writer(codecs)
    path = tmp_path / "img.h5"
    array = write(shards, path, encoded(data, codecs))
    assert int((array.offsets == MISSING).sum()) == 3
    assert shards.needs_plug_in == any(codec in codecs for codec in (ZSTD, BZ2))
    assert array.layout == shards.layout
    with h5py.File(path) as file:
        np.testing.assert_array_equal(file["data"][...], data)
        assert [dimension.label for dimension in file["data"].dims] == ["z", "y", "x"]
        assert file["data"].attrs["element_size_um"].tolist() == [0.5, 0.5, 0.5]
    key = store_array(tmp_path / "array", path, array, shards.header_size)
    assert key.stat().st_size == array.sizes[array.sizes != MISSING].sum()
    np.testing.assert_array_equal(pixels_of(tmp_path / "array"), data)


@pytest.mark.parametrize("chain", ["none", "deflate"])
@pytest.mark.parametrize("stored", ["all", "first", "last", "no"])
def test_the_header_has_one_size_and_all_that_is_not_chunks(
    tmp_path: Path, chain: str, stored: str
) -> None:
    codecs = CHAINS[chain]
    chunks = encoded(pixels(SHAPE), codecs)
    last = len(chunks) - 1
    kept = {"all": range(last + 1), "first": [0], "last": [last], "no": []}[stored]
    written = [chunk if at in kept else None for at, chunk in enumerate(chunks)]
    shards = writer(codecs)
    path = tmp_path / "img.h5"
    array = write(shards, path, written)
    assert path.read_bytes()[shards.header_size :] == b"".join(filter(None, written))
    ends = np.cumsum([len(chunk or b"") for chunk in written])
    for chunk, end, offset in zip(written, ends, array.offsets.flat, strict=True):
        if chunk is not None:
            assert int(offset) == shards.header_size + end - len(chunk)


@pytest.mark.parametrize("shape", [(16, 24, 32), (4, 8, 8), (9, 5, 17), (1, 1, 1)])
def test_a_shard_at_the_end_of_an_array_may_have_less_pixels(
    tmp_path: Path, shape: tuple[int, ...]
) -> None:
    codecs = CHAINS["shuffle"]
    data = pixels(shape)
    shards = writer(codecs)
    path = tmp_path / "img.h5"
    array = write(shards, path, encoded(data, codecs), shape=shape)
    assert int(array.offsets.flat[0]) == shards.header_size
    assert len(shard_index(array, SHAPE)) == 16 * 4 * 3 * 4 + 4
    with h5py.File(path) as file:
        np.testing.assert_array_equal(file["data"][...], data)


@pytest.mark.parametrize("count", [1, 2, 1000, 1025, 5000])
@pytest.mark.parametrize("chain", ["none", "deflate"])
def test_the_header_holds_the_index_of_any_number_of_chunks(
    tmp_path: Path, chain: str, count: int
) -> None:
    layout = layout_of(CHAINS[chain], axes=("dim_0",), inner_shape=(4,))
    shards = hdf5_shards(layout, (4 * count,))
    array = write(shards, tmp_path / "img.h5", [b"12345678"] * (count - 1) + [None])
    assert int((array.offsets == MISSING).sum()) == 1
    # An address of 8 bytes, the size of a chunk, and a mask of 4 bytes.
    assert shards.header_size < 4096 + 20 * count


@pytest.mark.parametrize(
    ("data_type", "fill_value", "element"),
    [
        ("bool", True, True),
        ("int8", -3, -3),
        ("float16", "NaN", np.nan),
        ("float32", "0x7fc00000", np.nan),
        ("float64", "-Infinity", -np.inf),
        ("complex64", [1.0, "Infinity"], complex(1, np.inf)),
        ("complex128", [0.5, 2.0], 0.5 + 2j),
        ("uint64", 2**64 - 1, 2**64 - 1),
    ],
)
def test_missing_chunks_have_the_fill_value_of_the_array(
    tmp_path: Path, data_type: str, fill_value: Any, element: Any
) -> None:
    layout = layout_of([LITTLE, ZLIB], data_type=data_type, fill_value=fill_value)
    path = tmp_path / "img.h5"
    shards = hdf5_shards(layout, INNER)
    write(shards, path, [None])
    assert path.stat().st_size == shards.header_size
    with h5py.File(path) as file:
        found = file["data"][...]
    assert found.dtype == data_type
    np.testing.assert_array_equal(found, np.full(INNER, element, data_type))


def test_what_is_merged_opens_with_h5py_through_a_mount(
    tmp_path: Path, mounted: Callable[[Path], Path]
) -> None:
    codecs = CHAINS["shuffle"]
    data = pixels((14, 24, 32), missing=((0, 1, 0),))
    path = tmp_path / "img.h5"
    shards = writer(codecs)
    array = write(shards, path, encoded(data, codecs), shape=data.shape)
    folder = tmp_path / "array"
    store_array(folder, path, array, shards.header_size)
    merged = mounted(folder) / "c/0/0/0.h5"
    read = (
        "import h5py, sys; sys.stdout.buffer.write(h5py.File(sys.argv[1])['data'][...].tobytes())"
    )
    done = subprocess.run([sys.executable, "-c", read, merged], capture_output=True, check=True)
    assert done.stdout == data.tobytes()
    # The merged file has the index of the shard behind the file that was written.
    assert merged.stat().st_size == path.stat().st_size + 16 * 48 + 4


def test_a_shard_that_was_read_is_written_again_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "img.h5"
    data = pixels(SHAPE)
    write(writer(CHAINS["shuffle"]), path, encoded(data, CHAINS["shuffle"]))
    array = read_file(path)
    written = path.read_bytes()
    extents = zip(array.offsets.flat, array.sizes.flat, strict=True)
    chunks = [written[int(offset) :][: int(size)] for offset, size in extents]
    again = hdf5_shards(array.layout, array.shape, scale=array.scale)
    write(again, tmp_path / "again.h5", chunks)
    assert (tmp_path / "again.h5").read_bytes() == written


def test_a_writer_can_be_sent_to_another_process(tmp_path: Path) -> None:
    shards = hdf5_shards(layout_of([LITTLE]), SHAPE, attributes={"name": "cells", "gains": [1, 2]})
    path = tmp_path / "img.h5"
    array = write(pickle.loads(pickle.dumps(shards)), path, encoded(pixels(SHAPE), [LITTLE]))
    assert array.attributes == {"hdf5": {"name": "cells", "gains": [1, 2]}}


# -- what HDF5 cannot hold


@pytest.mark.parametrize(
    "codecs",
    [
        [],
        [{"name": "transpose", "configuration": {"order": [2, 1, 0]}}, LITTLE],
        [{"name": "packbits"}],
        [LITTLE, {"name": "gzip", "configuration": {"level": 5}}],
        [LITTLE, {"name": "crc32c"}],
        [LITTLE, ZLIB, SHUFFLE],
        [LITTLE, {"name": "numcodecs.shuffle", "configuration": {"elementsize": 4}}],
    ],
)
def test_codecs_without_filters_are_told(codecs: list[dict[str, Any]]) -> None:
    assert filters_of(codecs, 2) is None


def test_filters_have_the_parameters_of_codecs() -> None:
    assert filters_of([LITTLE, SHUFFLE, ZLIB], 2) == (Filter(2, (2,)), Filter(1, (5,)))
    assert filters_of([LITTLE, ZSTD], 2) == (Filter(32015, (2**32 - 2,)),)


def test_a_layout_that_hdf5_lacks_is_refused() -> None:
    with pytest.raises(Refused, match="HDF5 has no filters for the codecs bytes, crc32c"):
        hdf5_shards(layout_of([LITTLE, {"name": "crc32c"}]), SHAPE)
    with pytest.raises(Refused, match="HDF5 files have no elements of the data type string"):
        hdf5_shards(layout_of([LITTLE], data_type="string"), SHAPE)
    large = (1 << 16, 1 << 16, 1)
    with pytest.raises(Refused, match="take smaller inner chunks"):
        hdf5_shards(layout_of([LITTLE, ZLIB], inner_shape=large), large)


def test_chunks_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    shards = hdf5_shards(layout_of([LITTLE]), INNER)
    with pytest.raises(Refused, match=r"the inner chunk at \(0, 0, 0\) has 3 bytes, not 512"):
        write(shards, tmp_path / "img.h5", [b"abc"])
