"""The pixels of an export are those of the array, for zarr-python and for readers of TIFF."""

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
import zarr
from builders.folders import zip_folder
from exports import assert_exported, pixels, read, stored, tiffs
from numcodecs import LZMA, Zlib
from zarr.codecs import BloscCodec, BytesCodec, GzipCodec, TransposeCodec, ZstdCodec

import zarrfuse
from zarrfuse.errors import ZarrfuseError

pytestmark = pytest.mark.filterwarnings("ignore:Numcodecs codecs")

CODECS: dict[str, Any] = {
    "none": None,
    "zstd": ZstdCodec(level=1),
    "checked zstd": ZstdCodec(level=1, checksum=True),
    "gzip": GzipCodec(level=1),
    "blosc": BloscCodec(cname="lz4"),
    "zlib": {"name": "numcodecs.zlib", "configuration": {"level": 1}},
    "lzma": {"name": "numcodecs.lzma", "configuration": {"preset": 0}},
}


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("shards", [None, (1, 64, 96)])
def test_each_codec_is_exported(tmp_path: Path, codec: str, shards: Any) -> None:
    data = pixels((2, 100, 130))
    compressors = CODECS[codec]
    stored(tmp_path / "a", data, chunks=(1, 32, 32), shards=shards, compressors=compressors)
    zarrfuse.export(tmp_path / "a", tmp_path / "out")
    assert_exported(tmp_path / "out", data, shards or (1, 32, 32))


@pytest.mark.parametrize("compression", ["none", "zstd", "deflate", "lzma"])
def test_a_compression_can_be_asked_for(tmp_path: Path, compression: str) -> None:
    data = pixels((64, 80))
    stored(tmp_path / "a", data, chunks=(64, 80), compressors=BloscCodec())
    zarrfuse.export(tmp_path / "a", tmp_path / "out", compression=compression)
    assert_exported(tmp_path / "out", data, (64, 80))
    with tifffile.TiffFile(tiffs(tmp_path / "out")[0, 0]) as tiff:
        expected = {"none": 1, "zstd": 50000, "deflate": 8, "lzma": 34925}[compression]
        assert tiff.pages.first.compression == expected


@pytest.mark.parametrize(
    "dtype",
    ["u1", "i1", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8", "c8", "c16"],
)
def test_each_type_of_tiff_is_exported(tmp_path: Path, dtype: str) -> None:
    data = pixels((1, 40, 50), dtype)
    stored(tmp_path / "a", data, chunks=(1, 32, 32), shards=(1, 64, 64))
    zarrfuse.export(tmp_path / "a", tmp_path / "out")
    assert_exported(tmp_path / "out", data, (1, 64, 64))
    assert read(tmp_path / "out").dtype == data.dtype


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (np.zeros((4, 4), bool), "no type for bool"),
        (np.zeros((4, 4), "M8[s]"), "no numbers"),
        (np.zeros((4, 4), "U3"), "no numbers"),
        (np.zeros(4, "u1"), "at least 2"),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_what_tiff_has_not_is_refused(tmp_path: Path, data: Any, words: str) -> None:
    stored(tmp_path / "a", data, chunks=data.shape)
    with pytest.raises(ZarrfuseError, match=words):
        zarrfuse.export(tmp_path / "a", tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("endian", ["big", "little"])
def test_the_byte_order_stays(tmp_path: Path, endian: Any) -> None:
    data = pixels((2, 40, 50))
    serializer = BytesCodec(endian=endian)
    stored(tmp_path / "a", data, chunks=(1, 32, 32), shards=(1, 64, 64), serializer=serializer)
    zarrfuse.export(tmp_path / "a", tmp_path / "out")
    assert_exported(tmp_path / "out", data, (1, 64, 64))
    head = tiffs(tmp_path / "out")[0, 0, 0].read_bytes()[:2]
    assert head == (b"MM" if endian == "big" else b"II")


@pytest.mark.parametrize("dtype", ["<u2", ">u2"])
@pytest.mark.parametrize("compressor", [None, Zlib(1), LZMA(preset=0), "default"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_zarr_v2_is_exported(tmp_path: Path, dtype: str, compressor: Any, order: Any) -> None:
    data = pixels((2, 70, 50)).astype(dtype)
    how = {} if compressor == "default" else {"compressors": compressor}
    stored(tmp_path / "a", data, zarr_format=2, chunks=(1, 32, 48), order=order, **how)
    zarrfuse.export(tmp_path / "a", tmp_path / "out")
    assert_exported(tmp_path / "out", data, (1, 32, 48))


@pytest.mark.parametrize("fill", [0, 5])
@pytest.mark.parametrize("codec", ["zstd", "gzip"])
def test_what_is_missing_has_the_fill_value(tmp_path: Path, fill: int, codec: str) -> None:
    data = np.full((2, 128, 128), fill, "u2")
    data[0, 3:40, 70:75] = 9
    stored(
        tmp_path / "a",
        data,
        chunks=(1, 32, 32),
        shards=(1, 64, 64),
        fill_value=fill,
        compressors=CODECS[codec],
    )
    zarrfuse.export(tmp_path / "a", tmp_path / "out")
    assert_exported(tmp_path / "out", data, (1, 64, 64), missing=7)
    with tifffile.TiffFile(tiffs(tmp_path / "out")[0, 0, 1]) as tiff:
        sizes = tiff.pages.first.databytecounts
    assert 0 not in sizes  # libtiff refuses these


def test_an_array_without_chunks_is_exported(tmp_path: Path) -> None:
    array = zarr.create_array(tmp_path / "a", shape=(0, 5), chunks=(1, 5), dtype="u1")
    zarrfuse.export(tmp_path / "a", tmp_path / "out")
    assert read(tmp_path / "out").shape == array.shape


@pytest.mark.parametrize("samples", [3, 4])
@pytest.mark.parametrize("chunk_samples", [1, None])
def test_samples_of_a_pixel_are_together(
    tmp_path: Path, samples: int, chunk_samples: int | None
) -> None:
    data = pixels((50, 70, samples), "u1")
    chunks = (32, 32, chunk_samples or samples)
    stored(tmp_path / "a", data, chunks=chunks, dimension_names=("y", "x", "c"))
    zarrfuse.export(tmp_path / "a", tmp_path / "out")
    assert_exported(tmp_path / "out", data, (32, 32, samples))
    with tifffile.TiffFile(tiffs(tmp_path / "out")[0, 0, 0]) as tiff:
        assert tiff.pages.first.photometric == tifffile.PHOTOMETRIC.RGB


@pytest.mark.parametrize("inner", [(1, 1, 16, 32), (1, 2, 16, 32), (2, 3, 32, 64)])
def test_arrays_of_four_dimensions_have_pages(tmp_path: Path, inner: tuple[int, ...]) -> None:
    data = pixels((4, 5, 40, 70))
    stored(
        tmp_path / "a",
        data,
        chunks=inner,
        shards=(2, 6, 32, 64),
        dimension_names=("t", "z", "y", "x"),
    )
    zarrfuse.export(tmp_path / "a", tmp_path / "out")
    assert_exported(tmp_path / "out", data, (2, 6, 32, 64))
    with tifffile.TiffFile(tiffs(tmp_path / "out")[1, 0, 0, 0]) as tiff:
        assert len(tiff.pages) == 10
        assert tiff.series[0].axes.startswith("TZ")


@pytest.mark.parametrize("chunks", [(33, 41), (20, 200), (70, 100)])
def test_chunks_of_any_sides_are_strips(tmp_path: Path, chunks: tuple[int, int]) -> None:
    data = pixels((70, 100))
    stored(tmp_path / "a", data, chunks=chunks, compressors=None, fill_value=7)
    zarrfuse.export(tmp_path / "a", tmp_path / "out")
    np.testing.assert_array_equal(read(tmp_path / "out"), data)
    for (i, j), path in tiffs(tmp_path / "out").items():
        part = data[i * chunks[0] : (i + 1) * chunks[0], j * chunks[1] : (j + 1) * chunks[1]]
        shown = tifffile.imread(path)
        assert shown.shape == (part.shape[0], chunks[1])  # as wide as it is stored
        np.testing.assert_array_equal(shown[:, : part.shape[1]], part)


@pytest.mark.parametrize("codec", ["zstd", "gzip"])
@pytest.mark.parametrize(
    ("shard", "tile"),
    [((2, 64, 128), None), ((2, 64, 128), (16, 64)), (None, (16, 16)), ((1, 48, 50), (4, 50))],
)
def test_shapes_can_be_asked_for(tmp_path: Path, codec: str, shard: Any, tile: Any) -> None:
    data = pixels((3, 100, 150))
    stored(tmp_path / "a", data, chunks=(1, 32, 32), compressors=CODECS[codec])
    zarrfuse.export(tmp_path / "a", tmp_path / "out", shard=shard, tile=tile)
    assert_exported(tmp_path / "out", data, shard or (1, 32, 32))


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"shard": (32, 32)}, "3 dimensions"),
        ({"shard": (1, 50, 32)}, "give --tile"),
        ({"tile": (8, 8)}, "multiples of 16"),
        ({"tile": (24, 32)}, "does not divide"),
        ({"tile": (2, 32, 32)}, "one page"),
        ({"compression": "gzip"}, "is not one of"),
        ({"format": "png"}, "is not one of"),
        ({"shard": (1, 2**31, 2**31), "tile": (16, 16)}, "larger --tile or smaller --shard"),
    ],
)
def test_shapes_that_cannot_be_are_refused(tmp_path: Path, how: Any, words: str) -> None:
    stored(tmp_path / "a", pixels((3, 100, 150)), chunks=(1, 32, 32))
    with pytest.raises(ZarrfuseError, match=words):
        zarrfuse.export(tmp_path / "a", tmp_path / "out", **how)


def test_an_array_without_dimensions_is_refused(tmp_path: Path) -> None:
    zarr.create_array(tmp_path / "a", shape=(), dtype="u2")[...] = 7
    for format_ in ("tiff", "hdf5"):
        with pytest.raises(ZarrfuseError, match="has 0 dimensions"):
            zarrfuse.export(tmp_path / "a", tmp_path / "out", format=format_)
    assert not (tmp_path / "out").exists()


def test_a_filter_is_decoded(tmp_path: Path) -> None:
    data = pixels((40, 50))
    stored(tmp_path / "a", data, chunks=(32, 32), filters=[TransposeCodec(order=(1, 0))])
    zarrfuse.export(tmp_path / "a", tmp_path / "out")
    assert_exported(tmp_path / "out", data, (32, 32))


def test_an_array_in_a_zip_is_exported(tmp_path: Path) -> None:
    data = pixels((40, 50))
    stored(tmp_path / "g" / "x" / "a", data, chunks=(32, 32))
    zip_folder(tmp_path / "g", tmp_path / "g.zip", zipfile.ZIP_STORED)
    zarrfuse.export(tmp_path / "g.zip" / "x" / "a", tmp_path / "out")
    assert_exported(tmp_path / "out", data, (32, 32))


@pytest.mark.parametrize("name", ["zstd", "raw", "strips", "header", "checksum"])
def test_chunks_in_parts_are_exported(demo: Path, tmp_path: Path, name: str) -> None:
    source = demo / "cells.zarr" / name
    zarrfuse.export(source, tmp_path / "out")
    assert_exported(tmp_path / "out", read(source), (512, 512))


def test_an_export_can_be_exported(tmp_path: Path) -> None:
    data = pixels((2, 100, 130))
    stored(tmp_path / "a", data, chunks=(1, 32, 32), shards=(2, 64, 64))
    zarrfuse.export(tmp_path / "a", tmp_path / "b")
    zarrfuse.export(tmp_path / "b", tmp_path / "c")
    assert_exported(tmp_path / "c", data, (2, 64, 64))
    assert (tmp_path / "b/zarr.json").read_bytes() == (tmp_path / "c/zarr.json").read_bytes()


def test_signs_of_zero_and_nan_stay(tmp_path: Path) -> None:
    data = np.zeros((64, 64), "f4")
    data[:32, :32] = -0.0
    data[32:, 32:] = np.nan
    for fill in (0.0, np.nan):
        source = tmp_path / f"a{fill}"
        stored(
            source,
            data,
            chunks=(32, 32),
            shards=(64, 64),
            fill_value=fill,
            compressors=CODECS["gzip"],
            config={"write_empty_chunks": True},
        )
        zarrfuse.export(source, tmp_path / f"out{fill}")
        assert read(tmp_path / f"out{fill}").tobytes() == data.tobytes()
