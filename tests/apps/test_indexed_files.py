"""Files of GDAL, libvips and libtiff are indexed, and read by tensorstore and libtiff in a mount."""

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorstore
import tifffile
import zarr

import zarrfuse
from zarrfuse.check import findings
from zarrfuse.errors import ZarrfuseError

GRAY = (np.add.outer(np.arange(300), 3 * np.arange(400)) * 37 % 60000).astype("u2")
RGB = np.stack([GRAY % 251, GRAY // 3 % 251, GRAY // 7 % 251], -1).astype("u1")


def source(tmp_path: Path, pixels: np.ndarray) -> Path:
    path = tmp_path / "source.tif"
    photometric = "rgb" if pixels.ndim == 3 else "minisblack"
    tifffile.imwrite(path, pixels, photometric=photometric, metadata=None)
    return path


def gdal(*options: str) -> Callable[[Path, Path], list[str]]:
    given = [word for option in options for word in ("-co", option)]
    return lambda old, new: ["gdal_translate", "-q", *given, str(old), str(new)]


def vips(options: str) -> Callable[[Path, Path], list[str]]:
    return lambda old, new: ["vips", "copy", str(old), f"{new}[{options}]"]


def tiffcp(*options: str) -> Callable[[Path, Path], list[str]]:
    return lambda old, new: ["tiffcp", *options, str(old), str(new)]


TILED = ("TILED=YES", "BLOCKXSIZE=64", "BLOCKYSIZE=64")
WRITERS: dict[str, tuple[np.ndarray, Callable[[Path, Path], list[str]]]] = {
    "gdal": (GRAY, gdal(*TILED)),
    "gdal strips": (GRAY, gdal()),
    "gdal deflate": (GRAY, gdal(*TILED, "COMPRESS=DEFLATE", "PREDICTOR=2")),
    "gdal zstd big-endian": (GRAY, gdal(*TILED, "COMPRESS=ZSTD", "ENDIANNESS=BIG")),
    "gdal lzw": (RGB, gdal(*TILED, "COMPRESS=LZW", "PREDICTOR=2")),
    "gdal bands": (RGB, gdal(*TILED, "COMPRESS=DEFLATE", "INTERLEAVE=BAND")),
    "gdal jpeg with shared tables": (RGB, gdal(*TILED, "COMPRESS=JPEG", "PHOTOMETRIC=YCBCR")),
    "gdal jpeg": (RGB[..., 0], gdal(*TILED, "COMPRESS=JPEG")),
    "gdal floats": ((GRAY / 7).astype("f4"), gdal(*TILED, "COMPRESS=DEFLATE", "PREDICTOR=2")),
    "gdal bigtiff": (GRAY, gdal(*TILED, "BIGTIFF=YES")),
    "vips": (RGB, vips("tile,tile-width=64,tile-height=64,compression=deflate")),
    "vips lzw": (GRAY, vips("tile,compression=lzw,predictor=horizontal")),
    "libtiff": (GRAY, tiffcp("-t", "-w", "64", "-l", "64", "-c", "zip:2")),
    "libtiff packbits": (RGB, tiffcp("-c", "packbits", "-r", "60")),
    "libtiff planes": (RGB, tiffcp("-t", "-w", "64", "-l", "64", "-p", "separate", "-c", "lzw")),
    "libtiff big-endian": (GRAY, tiffcp("-B", "-c", "none")),
}


@pytest.mark.parametrize("writer", WRITERS)
def test_files_of_other_programs_are_indexed(tmp_path: Path, writer: str) -> None:
    pixels, command = WRITERS[writer]
    folder = tmp_path / "tiffs"
    folder.mkdir()
    old = source(tmp_path, pixels)
    for number in range(2):
        subprocess.run(command(old, folder / f"t{number}.tif"), check=True, capture_output=True)
    out = zarrfuse.index(folder, jobs=1)
    assert [finding.line() for finding in findings(out, deep=True)] == []
    array = zarr.open_array(zarrfuse.open_store(out), mode="r")
    expected = tifffile.imread(folder / "t1.tif")
    if "jpeg" not in writer:
        shown = np.moveaxis(expected, 0, -1) if expected.shape[0] == 3 else expected
        np.testing.assert_array_equal(shown, pixels)
    np.testing.assert_array_equal(array[1], expected)


def test_overviews_of_gdal_become_levels(tmp_path: Path) -> None:
    folder = tmp_path / "tiffs"
    folder.mkdir()
    options = ("-of", "COG", "-co", "COMPRESS=DEFLATE", "-co", "BLOCKSIZE=128")
    path = folder / "a.tif"
    subprocess.run(["gdal_translate", "-q", *options, source(tmp_path, GRAY), path], check=True)
    group: Any = zarr.open_group(zarrfuse.open_store(zarrfuse.index(folder, jobs=1)), mode="r")
    with tifffile.TiffFile(path) as tiff:
        levels = [level.asarray() for level in tiff.series[0].levels]
    assert len(levels) > 1
    for number, level in enumerate(levels):
        np.testing.assert_array_equal(group[str(number)][...], level)


def test_a_pyramid_of_libvips_becomes_levels(tmp_path: Path) -> None:
    folder = tmp_path / "tiffs"
    folder.mkdir()
    options = "tile,tile-width=64,tile-height=64,compression=deflate,pyramid,subifd"
    path = folder / "a.tif"
    subprocess.run(vips(options)(source(tmp_path, GRAY), path), check=True)
    group: Any = zarr.open_group(zarrfuse.open_store(zarrfuse.index(folder, jobs=1)), mode="r")
    np.testing.assert_array_equal(group["0"][...], GRAY)
    with tifffile.TiffFile(path) as tiff:
        np.testing.assert_array_equal(group["1"][...], tiff.series[0].levels[1].asarray())


def test_fax_is_refused_by_name(tmp_path: Path) -> None:
    folder = tmp_path / "tiffs"
    folder.mkdir()
    tifffile.imwrite(tmp_path / "bits.tif", GRAY % 2 == 0, photometric="miniswhite")
    subprocess.run(["tiffcp", "-c", "g4", tmp_path / "bits.tif", folder / "a.tif"], check=True)
    with pytest.raises(ZarrfuseError, match=r"^a\.tif: its compression CCITTFAX4 \(4\)"):
        zarrfuse.index(folder, jobs=1)


@pytest.mark.parametrize("compression", [None, "zstd"])
def test_a_mount_of_it_is_read_by_tensorstore_and_libtiff(
    tmp_path: Path, mounted: Callable[..., Path], compression: str | None
) -> None:
    folder = tmp_path / "tiffs"
    folder.mkdir()
    for y in range(2):
        for x in range(2):
            part = GRAY[y * 128 : (y + 1) * 128, x * 256 : (x + 1) * 256]
            path = folder / f"y{y}_x{x}.tif"
            tifffile.imwrite(path, part, tile=(64, 64), compression=compression)
    out = Path(zarrfuse.index(folder, jobs=1))
    plain = mounted(out, "--view", "plain")
    store = {"driver": "zarr3", "kvstore": {"driver": "file", "path": f"{plain}/"}}
    array = tensorstore.open(store, read=True).result()
    np.testing.assert_array_equal(array.read().result(), GRAY[:256])
    chunks = mounted(out)
    copy = tmp_path / "copy.tif"
    subprocess.run(["tiffcp", "-c", "none", chunks / "c/1/0.tif", copy], check=True)
    np.testing.assert_array_equal(tifffile.imread(copy), GRAY[128:256, :256])
    np.testing.assert_array_equal(tifffile.imread(chunks / "c/1/1.tif"), GRAY[128:256, 256:])
    subprocess.run(["gdalinfo", "-checksum", chunks / "c/0/1.tif"], check=True)
