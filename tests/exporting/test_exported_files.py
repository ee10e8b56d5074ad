"""The files of an export: encoded bytes that are kept, headers, metadata, and what libtiff says of them."""

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
import zarr
from exports import assert_exported, pixels, read, stored, tiffs
from imagecodecs import numcodecs as image_codecs
from numcodecs import Zlib
from zarr.codecs import BytesCodec, ZstdCodec

import zarrfuse
from zarrfuse.errors import Corrupt
from zarrfuse.exporting import tiff
from zarrfuse.shards.index import parse_index
from zarrfuse.shards.layout import MISSING

pytestmark = pytest.mark.filterwarnings("ignore:Numcodecs codecs")

KEPT: dict[str, Any] = {
    "none": None,
    "zstd": ZstdCodec(level=1, checksum=True),
    "zlib": {"name": "numcodecs.zlib", "configuration": {"level": 1}},
    "lzma": {"name": "numcodecs.lzma", "configuration": {"preset": 0}},
}


def inner_chunks(shard: bytes, count: int) -> list[bytes | None]:
    """The encoded inner chunks of a shard."""
    index = np.frombuffer(shard, np.uint8)[-16 * count - 4 :].copy()
    parsed = parse_index(index, checksums=1, big_endian=False)
    assert parsed is not None
    return [
        None if offset == MISSING else shard[int(offset) : int(offset + size)]
        for offset, size in zip(*parsed, strict=True)
    ]


def merged(path: Path) -> bytes:
    """A file and its index."""
    return path.read_bytes() + Path(f"{path}.index").read_bytes()


@pytest.mark.parametrize("codec", KEPT)
@pytest.mark.parametrize("location", ["start", "end"])
def test_encoded_inner_chunks_are_copied(tmp_path: Path, codec: str, location: Any) -> None:
    data = pixels((128, 128))
    data[:32, 32:64] = 0
    how = {"compressors": KEPT[codec], "chunks": (32, 32), "shards": {"shape": (64, 64)}}
    how["shards"]["index_location"] = location
    stored(tmp_path / "a", data, **how)
    zarrfuse.export(tmp_path / "a", tmp_path / "out")
    stored(tmp_path / "b", data, **{**how, "shards": (64, 64)})
    for (y, x), path in tiffs(tmp_path / "out").items():
        expected = inner_chunks((tmp_path / f"b/c/{y}/{x}").read_bytes(), 4)
        assert inner_chunks(merged(path), 4) == expected


@pytest.mark.parametrize("codec", KEPT)
def test_encoded_chunks_become_inner_chunks(tmp_path: Path, codec: str) -> None:
    stored(tmp_path / "a", pixels((128, 128)), compressors=KEPT[codec], chunks=(32, 32))
    zarrfuse.export(tmp_path / "a", tmp_path / "out", shard=(64, 128))
    found = inner_chunks(merged(tiffs(tmp_path / "out")[1, 0]), 8)
    expected = [(tmp_path / f"a/c/{y}/{x}").read_bytes() for y in (2, 3) for x in range(4)]
    assert found == expected


@pytest.mark.parametrize("codec", KEPT)
def test_the_codecs_of_kept_bytes_stay(tmp_path: Path, codec: str) -> None:
    how = {"compressors": KEPT[codec], "chunks": (32, 32), "shards": (64, 64)}
    stored(tmp_path / "a", pixels((64, 64)), **how)
    zarrfuse.export(tmp_path / "a", tmp_path / "out")
    before, after = (json.loads((tmp_path / f / "zarr.json").read_text()) for f in ("a", "out"))
    codecs = [each["codecs"][0]["configuration"]["codecs"] for each in (before, after)]
    assert codecs[0] == codecs[1]


def test_zarr_v2_is_copied_too(tmp_path: Path) -> None:
    data = pixels((64, 64)).astype(">u2")
    stored(tmp_path / "a", data, zarr_format=2, chunks=(32, 32), compressors=Zlib(1))
    zarrfuse.export(tmp_path / "a", tmp_path / "out")
    found = inner_chunks(merged(tiffs(tmp_path / "out")[1, 0]), 1)
    assert found == [(tmp_path / "a" / "1.0").read_bytes()]


@pytest.mark.parametrize("codec", ["lzw", "lzw and delta", "packbits"])
@pytest.mark.parametrize("fill", [0, 7])
@pytest.mark.parametrize("dtype", ["<u2", ">u2"])
def test_codecs_of_tiff_are_copied(tmp_path: Path, codec: str, fill: int, dtype: str) -> None:
    image_codecs.register_codecs(verbose=False)
    data = pixels((64, 64)).astype(dtype)
    data[:32, :32] = fill
    lzw = image_codecs.Lzw()
    stored(
        *(tmp_path / "a", data),
        zarr_format=2,
        chunks=(32, 32),
        fill_value=fill,
        filters=[image_codecs.Delta(axis=-1)] if "delta" in codec else None,
        compressors=lzw if "lzw" in codec else image_codecs.Packbits(),
    )
    zarrfuse.export(tmp_path / "a", tmp_path / "out", shard=(64, 64))
    path = tiffs(tmp_path / "out")[0, 0]
    np.testing.assert_array_equal(tifffile.imread(path), data)
    found = inner_chunks(merged(path), 4)
    assert found[1:] == [(tmp_path / "a" / name).read_bytes() for name in ("0.1", "1.0", "1.1")]
    plain = tmp_path / "plain.tiff"
    subprocess.run(["tiffcp", "-c", "none", "-s", path, plain], check=True)
    np.testing.assert_array_equal(tifffile.imread(plain), data)


def test_metadata_of_the_array_stay(tmp_path: Path) -> None:
    stored(
        tmp_path / "a",
        pixels((40, 50), "f4"),
        chunks=(32, 32),
        fill_value=np.nan,
        dimension_names=("y", "x"),
        attributes={"exposure": [1, {"s": 2.5}], "name": "µ"},
    )
    zarrfuse.export(tmp_path / "a", tmp_path / "out")
    before, after = (json.loads((tmp_path / f / "zarr.json").read_text()) for f in ("a", "out"))
    for member in ("shape", "data_type", "fill_value", "attributes", "dimension_names"):
        assert after[member] == before[member]


def test_attributes_of_zarr_v2_stay(tmp_path: Path) -> None:
    array = stored(tmp_path / "a", pixels((40, 50)), zarr_format=2, compressors=Zlib(1))
    array.attrs.update({"_ARRAY_DIMENSIONS": ["y", "x"], "k": 1})
    zarrfuse.export(tmp_path / "a", tmp_path / "out")
    found = zarr.open_array(zarrfuse.open_store(tmp_path / "out"), mode="r")
    assert found.metadata.to_dict()["dimension_names"] == ("y", "x")
    assert found.attrs["k"] == 1


def test_headers_have_the_sizes_of_pixels(tmp_path: Path) -> None:
    axes = [
        {"name": "z", "type": "space", "unit": "micrometer"},
        *({"name": name, "type": "space", "unit": "micrometer"} for name in "yx"),
    ]
    scale = [{"type": "scale", "scale": [2.0, 0.25, 0.5]}]
    level = {"path": "s0", "coordinateTransformations": scale}
    attributes = {"ome": {"version": "0.5", "multiscales": [{"axes": axes, "datasets": [level]}]}}
    zarr.create_group(tmp_path / "g", attributes=attributes)
    data = pixels((4, 64, 96))
    stored(tmp_path / "g/s0", data, chunks=(1, 32, 32), shards=(2, 32, 64))
    zarrfuse.export(tmp_path / "g/s0", tmp_path / "out")
    assert_exported(tmp_path / "out", data, (2, 32, 64))
    with tifffile.TiffFile(tiffs(tmp_path / "out")[1, 1, 1]) as file:
        page = file.pages.first
        assert page.get_resolution("MICROMETER") == pytest.approx((2.0, 4.0))
        assert file.series[0].axes == "ZYX"
        metadata = tifffile.xml2dict(file.ome_metadata)["OME"]["Image"]["Pixels"]
    assert (metadata["PhysicalSizeX"], metadata["PhysicalSizeY"]) == (0.5, 0.25)
    assert metadata["PhysicalSizeZ"] == 2.0
    plane = metadata["Plane"][0]
    assert (plane["PositionX"], plane["PositionY"], plane["PositionZ"]) == (32.0, 8.0, 4.0)


def test_large_files_are_bigtiff(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiff, "_CLASSIC_BYTES", 10_000)
    data = pixels((3, 100, 130))
    for endian in ("little", "big"):
        source, folder = tmp_path / endian, tmp_path / f"{endian} out"
        serializer = BytesCodec(endian=endian)  # type: ignore[arg-type]
        stored(source, data, chunks=(1, 32, 32), shards=(3, 64, 96), serializer=serializer)
        zarrfuse.export(source, folder)
        assert_exported(folder, data, (3, 64, 96))
        with tifffile.TiffFile(tiffs(folder)[0, 0, 0]) as file:
            assert file.is_bigtiff


def test_missing_tiles_of_another_fill_value_are_stored_once(tmp_path: Path) -> None:
    data = np.full((64, 64), 7, "u1")
    data[0, 0] = 1
    stored(
        *(tmp_path / "a", data),
        **{"chunks": (16, 16), "shards": (64, 64), "fill_value": 7, "compressors": None},
    )
    zarrfuse.export(tmp_path / "a", tmp_path / "out")
    assert_exported(tmp_path / "out", data, (64, 64))
    assert tiffs(tmp_path / "out")[0, 0].stat().st_size < 3 * 256 + 1024


@pytest.mark.parametrize("codec", KEPT)
@pytest.mark.parametrize("how", ["tiles", "strips", "samples", "big", "bigtiff"])
def test_libtiff_reads_each_file_without_complaint(
    tmp_path: Path, codec: str, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shape, chunks, shards = (2, 70, 50), (1, 32, 32), (2, 64, 64)
    names: Any = ("t", "y", "x")
    if how == "strips":
        chunks, shards = (1, 8, 25), (2, 16, 25)
    if how == "samples":
        shape, chunks, shards, names = (70, 50, 3), (32, 32, 3), (64, 64, 3), ("y", "x", "c")
    if how == "bigtiff":
        monkeypatch.setattr(tiff, "_CLASSIC_BYTES", 0)
    data = pixels(shape)
    stored(
        *(tmp_path / "a", data),
        chunks=chunks,
        shards=shards,
        dimension_names=names,
        compressors=KEPT[codec],
        serializer=BytesCodec(endian="big" if how == "big" else "little"),
    )
    zarrfuse.export(tmp_path / "a", tmp_path / "out")
    for path in (tiffs(tmp_path / "out")[0, 0, 0], max(tiffs(tmp_path / "out").values())):
        ran = subprocess.run(["tiffinfo", "-d", path], capture_output=True, text=True, check=True)
        assert ran.stderr == ""
        plain = tmp_path / "plain.tiff"
        command = ["tiffcp", "-c", "none", "-s", path, plain]
        ran = subprocess.run(command, capture_output=True, text=True, check=True)
        assert ran.stderr == ""
        with tifffile.TiffFile(path) as ours, tifffile.TiffFile(plain) as theirs:
            for page, other in zip(ours.pages, theirs.pages, strict=True):
                np.testing.assert_array_equal(page.asarray(), other.asarray())
    padded = how == "strips" and codec != "none"
    if not padded:
        assert_exported(tmp_path / "out", data, shards)
    np.testing.assert_array_equal(read(tmp_path / "out"), data)


@pytest.mark.parametrize("damage", ["index", "shorter"])
def test_a_damaged_shard_is_told_of(tmp_path: Path, damage: str) -> None:
    stored(tmp_path / "a", pixels((64, 64)), chunks=(32, 32), shards=(64, 64))
    shard = tmp_path / "a/c/0/0"
    whole = shard.read_bytes()
    if damage == "index":
        shard.write_bytes(whole[:-10] + b"\1" + whole[-9:])
    else:
        shard.write_bytes(whole[:50])
    with pytest.raises(Corrupt, match="index"):
        zarrfuse.export(tmp_path / "a", tmp_path / "out")
    assert not (tmp_path / "out/zarr.json").exists()
