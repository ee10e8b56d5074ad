"""TIFF files in the layouts that `zarrfuse index` takes, as tifffile, GDAL, libtiff and libvips write them.

`LAYOUTS` has a function for each: it writes a file to a path, with other pixels for each `seed`.
"""

import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import tifffile

Write = Callable[[Path, int], None]
Pixels = np.ndarray


def pixels(shape: tuple[int, ...], dtype: Any = "uint16", seed: int = 0) -> Pixels:
    """A gradient along the last two dimensions, and noise."""
    generator = np.random.default_rng(seed)
    values = np.indices(shape).sum(0) * 2 + generator.integers(0, 9, shape)
    dtype = np.dtype(dtype)
    match dtype.kind:
        case "u":
            return (values % min(241, np.iinfo(dtype).max + 1)).astype(dtype) * (
                1 if dtype.itemsize == 1 else dtype.type(101)
            )
        case "i":
            return (values % 241 - 120).astype(dtype)
        case "c":
            return (values + 1j * generator.random(shape)).astype(dtype)
        case _:
            return (values / 7).astype(dtype)


def by_tifffile(shape: tuple[int, ...], dtype: Any = "uint16", **options: Any) -> Write:
    """A file of one array; without `photometric`, gray."""
    options = {"photometric": "minisblack", "metadata": None, **options}

    def write(path: Path, seed: int = 0) -> None:
        tifffile.imwrite(path, pixels(shape, dtype, seed), **options)

    return write


def _run(*command: str | Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, (command, done.stderr)


@contextmanager
def _source_of(path: Path) -> Iterator[Path]:
    """The path of a file that a program makes one of at `path`; it is deleted afterwards."""
    source = path.with_name(f".{path.name}.source.tif")
    yield source
    source.unlink()


def _translate(source: Path, path: Path, options: Sequence[str], *arguments: str) -> None:
    """`gdal_translate` with these creation options."""
    created = [word for option in options for word in ("-co", option)]
    _run("gdal_translate", "-q", *arguments, *created, source, path)


def by_gdal(
    shape: tuple[int, ...], dtype: Any, *options: str, arguments: tuple[str, ...] = (), **given: Any
) -> Write:
    """A file that `gdal_translate` made of one of tifffile."""

    def write(path: Path, seed: int = 0) -> None:
        with _source_of(path) as source:
            by_tifffile(shape, dtype, **_colour(shape), **given)(source, seed)
            _translate(source, path, options, *arguments)

    return write


def by_libtiff(
    shape: tuple[int, ...], dtype: Any, *options: str, of: dict[str, Any] | None = None
) -> Write:
    """A file that `tiffcp` made of one of tifffile."""

    def write(path: Path, seed: int = 0) -> None:
        with _source_of(path) as source:
            by_tifffile(shape, dtype, **(_colour(shape) if of is None else of))(source, seed)
            _run("tiffcp", *options, source, path)

    return write


def by_vips(shape: tuple[int, ...], dtype: Any, *options: str) -> Write:
    """A file that `vips tiffsave` made of one of tifffile."""

    def write(path: Path, seed: int = 0) -> None:
        with _source_of(path) as source:
            by_tifffile(shape, dtype, **_colour(shape))(source, seed)
            _run("vips", "tiffsave", source, path, *options)

    return write


def _colour(shape: tuple[int, ...]) -> dict[str, Any]:
    return {"photometric": "rgb"} if shape[-1] in (3, 4) else {}


RGB = {"photometric": "rgb", "planarconfig": "contig"}
PLANAR = {"photometric": "rgb", "planarconfig": "separate"}
TILES = {"tile": (32, 48)}


def _compressed() -> dict[str, Write]:
    found: dict[str, Write] = {}
    types = {
        "uint8": (1, 2),
        "uint16": (1, 2),
        "uint32": (1, 2),
        "int8": (1, 2),
        "int16": (1, 2),
        "float16": (1, 3),
        "float32": (1, 3),
        "float64": (1, 3),
        "complex64": (1,),
    }
    for compression in ("none", "zstd", "deflate", "lzma", "lzw", "packbits", 32946):
        for dtype, predictors in types.items():
            for predictor in predictors if compression not in ("none", "packbits") else (1,):
                for order in "<>" if dtype in ("uint16", "float32") else "<":
                    name = f"{compression}-{dtype}-predictor{predictor}-{order}"
                    found[name] = by_tifffile(
                        (70, 100),
                        dtype,
                        compression=compression,
                        predictor=predictor if predictor > 1 else None,
                        byteorder=order,
                        **TILES,
                    )
    return found


def _gray(dtype: str, compression: Any, **options: Any) -> Write:
    return by_tifffile((70, 100), dtype, compression=compression, **TILES, **options)


def _rgb(dtype: str, compression: Any, **options: Any) -> Write:
    return by_tifffile((70, 100, 3), dtype, compression=compression, **RGB, **TILES, **options)


def _rgba(dtype: str, compression: Any) -> Write:
    options: Any = {**RGB, **TILES, "extrasamples": ["unassalpha"]}
    return by_tifffile((70, 100, 4), dtype, compression=compression, **options)


def _planar(compression: Any) -> Write:
    return by_tifffile((3, 70, 100), "uint8", compression=compression, **PLANAR, **TILES)


def _of_images() -> dict[str, Write]:
    return {
        "jpeg-gray": _gray("uint8", "jpeg"),
        "jpeg-rgb": _rgb("uint8", "jpeg"),
        "jpeg-rgb-stored": _rgb("uint8", "jpeg", compressionargs={"outcolorspace": "rgb"}),
        "jpeg-ycbcr-420": _rgb("uint8", "jpeg", subsampling=(2, 2)),
        "jpeg-ycbcr-422": _rgb("uint8", "jpeg", subsampling=(2, 1)),
        "jpeg-planar": _planar("jpeg"),
        "jpeg-gdal": by_gdal((70, 100, 3), "uint8", "COMPRESS=JPEG", *_GDAL_TILES),
        "jpeg-gdal-ycbcr": by_gdal(
            (70, 100, 3), "uint8", "COMPRESS=JPEG", "PHOTOMETRIC=YCBCR", *_GDAL_TILES
        ),
        "jpeg-gdal-gray": by_gdal((70, 100), "uint8", "COMPRESS=JPEG", *_GDAL_TILES),
        "jpeg-gdal-own-tables": by_gdal(
            (70, 100, 3), "uint8", "COMPRESS=JPEG", "JPEGTABLESMODE=0", *_GDAL_TILES
        ),
        "jpeg-gdal-both-tables": by_gdal(
            (70, 100, 3),
            "uint8",
            *("COMPRESS=JPEG", "PHOTOMETRIC=YCBCR", "JPEGTABLESMODE=3"),
            *_GDAL_TILES,
        ),
        "jpeg-gdal-bands": by_gdal(
            (70, 100, 3), "uint8", "COMPRESS=JPEG", "INTERLEAVE=BAND", *_GDAL_TILES
        ),
        "jpeg-gdal-rgba": by_gdal((70, 100, 4), "uint8", "COMPRESS=JPEG", *_GDAL_TILES),
        "jpeg-libtiff": by_libtiff((64, 96, 3), "uint8", "-c", "jpeg:r:90", "-t", *_LIBTIFF_TILES),
        "jpeg-libtiff-ycbcr": by_libtiff(
            (64, 96, 3), "uint8", "-c", "jpeg:90", "-t", *_LIBTIFF_TILES
        ),
        "jpeg-libtiff-strips": by_libtiff((64, 96, 3), "uint8", "-c", "jpeg:90", "-r", "16"),
        "jpeg-vips": by_vips(
            (70, 100, 3), "uint8", "--compression", "jpeg", "--tile", *_VIPS_TILES
        ),
        "jpeg-vips-gray": by_vips(
            (70, 100), "uint8", "--compression", "jpeg", "--tile", *_VIPS_TILES
        ),
        "jpeg2000-gray": _gray("uint16", "jpeg2000"),
        "jpeg2000-rgb": _rgb("uint8", "jpeg2000"),
        "jpeg2000-lossy": _rgb("uint8", "jpeg2000", compressionargs={"level": 40}),
        "jpeg2000-aperio": _rgb("uint8", 33005),
        "jpeg2000-planar": _planar("jpeg2000"),
        "webp-rgb": _rgb("uint8", "webp"),
        "webp-rgba": _rgba("uint8", "webp"),
        "webp-lossy": _rgb("uint8", "webp", compressionargs={"level": 50, "lossless": False}),
        "webp-gdal": by_gdal((70, 100, 3), "uint8", "COMPRESS=WEBP", *_GDAL_TILES),
        "webp-gdal-rgba": by_gdal((70, 100, 4), "uint8", "COMPRESS=WEBP", *_GDAL_TILES),
        "webp-vips": by_vips(
            (70, 100, 3), "uint8", "--compression", "webp", "--tile", *_VIPS_TILES
        ),
        "lerc-uint16": _gray("uint16", "lerc"),
        "lerc-float32": _gray("float32", "lerc"),
        "lerc-float64-lossy": _gray("float64", "lerc", compressionargs={"level": 0.5}),
        "lerc-rgb": _rgb("uint8", "lerc"),
        "lerc-gdal": by_gdal((70, 100), "float32", "COMPRESS=LERC", *_GDAL_TILES),
        "lerc-gdal-lossy": by_gdal(
            (70, 100), "float32", "COMPRESS=LERC", "MAX_Z_ERROR=0.1", *_GDAL_TILES
        ),
        "lerc-gdal-deflate": by_gdal((70, 100), "uint16", "COMPRESS=LERC_DEFLATE", *_GDAL_TILES),
        "lerc-gdal-zstd": by_gdal((70, 100), "float64", "COMPRESS=LERC_ZSTD", *_GDAL_TILES),
        "lerc-gdal-rgb": by_gdal((70, 100, 3), "uint8", "COMPRESS=LERC_ZSTD", *_GDAL_TILES),
        "png-gray": _gray("uint16", "png"),
        "png-rgb": _rgb("uint8", "png"),
        "png-rgba": _rgba("uint16", "png"),
        "jpegxl-gray": _gray("uint8", "jpegxl"),
        "jpegxl-rgb": _rgb("uint16", "jpegxl"),
        "jpegxl-lossy": _rgb(
            "uint8", "jpegxl", compressionargs={"distance": 2.0, "lossless": False}
        ),
        "jpegxr-gray": _gray("uint8", "jpegxr"),
        "jpegxr-rgb": _rgb("uint16", "jpegxr"),
    }


_GDAL_TILES = ("TILED=YES", "BLOCKXSIZE=48", "BLOCKYSIZE=32")
_LIBTIFF_TILES = ("-w", "48", "-l", "32")
_VIPS_TILES = ("--tile-width", "48", "--tile-height", "32")


def _shapes() -> dict[str, Write]:
    zstd: dict[str, Any] = {"compression": "zstd"}
    rgb = {**RGB, "metadata": None}
    return {
        "one-strip": by_tifffile((70, 100), rowsperstrip=70),
        "strips": by_tifffile((70, 100), rowsperstrip=10),
        "strips-short-last": by_tifffile((70, 100), rowsperstrip=16),
        "strips-prime": by_tifffile((71, 100), rowsperstrip=16),
        "strips-large": by_tifffile((1000, 700), rowsperstrip=100),
        "strips-large-short-last": by_tifffile((1000, 700), rowsperstrip=96),
        "strips-8-rows-large": by_tifffile((800, 1100), rowsperstrip=8),
        "strips-zstd": by_tifffile((70, 100), rowsperstrip=10, **zstd),
        "strips-zstd-one": by_tifffile((71, 100), rowsperstrip=1000, **zstd),
        "strips-rgb": by_tifffile((70, 100, 3), "uint8", rowsperstrip=16, **rgb),
        "strips-rgb-planar": by_tifffile((3, 70, 100), "uint8", rowsperstrip=16, **PLANAR),
        "strips-libtiff": by_libtiff((200, 300), "uint16", "-r", "13"),
        "strips-libtiff-lzw": by_libtiff((200, 300), "uint16", "-c", "lzw:2", "-r", "20"),
        "strips-libtiff-zip3": by_libtiff((200, 300), "float32", "-c", "zip:3", "-r", "20"),
        "strips-libtiff-packbits": by_libtiff((200, 300), "uint8", "-c", "packbits", "-r", "20"),
        "strips-gdal": by_gdal((200, 300), "uint16"),
        "libtiff-big-endian": by_libtiff((200, 300), "uint16", "-B", "-r", "20"),
        "libtiff-bigtiff": by_libtiff((200, 300), "uint16", "-8", "-t", *_LIBTIFF_TILES),
        "libtiff-separate": by_libtiff(
            (64, 96, 3), "uint8", "-p", "separate", "-c", "lzw", "-t", *_LIBTIFF_TILES
        ),
        "libtiff-separate-strips": by_libtiff(
            (64, 96, 3), "uint8", "-p", "separate", "-r", "10", "-B"
        ),
        "libtiff-lzma": by_libtiff((70, 100), "uint16", "-c", "lzma:2", "-t", *_LIBTIFF_TILES),
        "libtiff-zstd": by_libtiff((70, 100), "uint16", "-c", "zstd:2", "-t", *_LIBTIFF_TILES),
        "libtiff-zip-rgb": by_libtiff((70, 100, 3), "uint16", "-c", "zip:2", "-t", *_LIBTIFF_TILES),
        "vips-lzw": by_vips((70, 100), "uint16", "--compression", "lzw", "--tile", *_VIPS_TILES),
        "vips-deflate-predictor": by_vips(
            (70, 100, 3),
            "uint8",
            *("--compression", "deflate", "--predictor", "horizontal", "--tile"),
            *_VIPS_TILES,
        ),
        "vips-bigtiff": by_vips((70, 100), "float32", "--bigtiff", "--tile", *_VIPS_TILES),
        "pages": by_tifffile((3, 70, 100), **TILES),
        "pages-zstd": by_tifffile((3, 70, 100), **TILES, **zstd),
        "pages-strips": by_tifffile((3, 70, 100), rowsperstrip=16),
        "pages-of-two-axes": by_tifffile((2, 3, 70, 100), **TILES),
        "pages-shaped": by_tifffile((2, 3, 70, 100), metadata={}, **TILES),
        "pages-axes": by_tifffile((2, 3, 70, 100), metadata={"axes": "TCYX"}, **TILES),
        "pages-rgb": by_tifffile((3, 70, 100, 3), "uint8", **RGB, **TILES),
        "pages-libtiff": by_libtiff((3, 70, 100), "uint16", "-c", "zip", "-t", *_LIBTIFF_TILES),
        "contiguous-shaped": by_tifffile((3, 70, 100), metadata={}, contiguous=True, truncate=True),
        "volume": by_tifffile((40, 64, 96), volumetric=True, tile=(16, 32, 48)),
        "volume-zstd": by_tifffile((40, 64, 96), volumetric=True, tile=(16, 32, 48), **zstd),
        "volume-ragged": by_tifffile((21, 70, 100), volumetric=True, tile=(16, 32, 48), **zstd),
        "volume-rgb": by_tifffile(
            (20, 70, 100, 3), "uint8", volumetric=True, tile=(16, 32, 48), **zstd, **RGB
        ),
        "rgb": by_tifffile((70, 100, 3), "uint8", **RGB, **TILES),
        "rgb-planar": by_tifffile((3, 70, 100), "uint8", **PLANAR, **TILES),
        "rgb-planar-predictor": by_tifffile(
            (3, 70, 100), "uint16", predictor=2, **zstd, **PLANAR, **TILES
        ),
        "rgb-predictor": by_tifffile((70, 100, 3), "uint16", predictor=2, **zstd, **RGB, **TILES),
        "rgb-float-predictor": by_tifffile(
            (70, 100, 3), "float32", predictor=3, **zstd, **RGB, **TILES
        ),
        "rgb-strips-predictor": by_tifffile(
            (70, 100, 3), "uint16", predictor=2, rowsperstrip=10, **zstd, **RGB
        ),
        "rgba": by_tifffile((70, 100, 4), "uint8", extrasamples=["unassalpha"], **RGB, **TILES),
        "rgba-predictor": by_tifffile(
            (70, 100, 4), "uint8", extrasamples=["assocalpha"], predictor=2, **zstd, **RGB, **TILES
        ),
        "gray-alpha": by_tifffile(
            (70, 100, 2), "uint8", planarconfig="contig", extrasamples=["unassalpha"], **TILES
        ),
        "palette": by_tifffile(
            (70, 100),
            "uint8",
            photometric="palette",
            colormap=np.arange(768, dtype=np.uint16).reshape(3, 256),
            **TILES,
        ),
        "min-is-white": by_tifffile((70, 100), "uint8", photometric="miniswhite", **TILES),
        "bigtiff": by_tifffile((70, 100), bigtiff=True, **TILES),
        "bigtiff-big-endian": by_tifffile((2, 70, 100), bigtiff=True, byteorder=">", **TILES),
        "imagej": by_tifffile(
            (2, 3, 2, 70, 100), imagej=True, metadata={"axes": "TZCYX"}, photometric=None
        ),
        "imagej-rgb": by_tifffile((2, 70, 100, 3), "uint8", imagej=True, photometric=None),
        "imagej-one-ifd": by_tifffile(
            (2, 3, 70, 100),
            imagej=True,
            metadata={"axes": "TZYX"},
            photometric=None,
            truncate=True,
        ),
        "ome": by_tifffile((2, 3, 70, 100), ome=True, metadata={"axes": "CZYX"}, **TILES, **zstd),
        "ome-strips": by_tifffile((2, 3, 70, 100), ome=True, metadata={"axes": "CZYX"}),
        "ome-planar": by_tifffile((3, 70, 100), "uint8", ome=True, metadata={}, **PLANAR, **TILES),
        "ome-rgb": by_tifffile((70, 100, 3), "uint8", ome=True, metadata={}, **RGB, **TILES),
        "ome-all-axes": by_tifffile(
            (2, 2, 3, 70, 100), ome=True, metadata={"axes": "TCZYX"}, **TILES
        ),
        "geotiff-nodata": by_gdal(
            (70, 100),
            "float32",
            *_GDAL_TILES,
            arguments=("-a_nodata", "-9999", "-a_ullr", "0", "70", "100", "0"),
        ),
        "gdal-bands": by_gdal((70, 100, 3), "uint16", "INTERLEAVE=BAND", *_GDAL_TILES),
        "gdal-zstd-predictor": by_gdal(
            (70, 100), "int16", "COMPRESS=ZSTD", "PREDICTOR=2", *_GDAL_TILES
        ),
        "gdal-float-predictor": by_gdal(
            (70, 100), "float64", "COMPRESS=DEFLATE", "PREDICTOR=3", *_GDAL_TILES
        ),
        "gdal-float-differences": by_gdal(
            (70, 100), "float32", "COMPRESS=DEFLATE", "PREDICTOR=2", *_GDAL_TILES
        ),
        **{f"gdal-{bits}-bits": packed(bits) for bits in (1, 2, 4, 10, 12, 14)},
        "gdal-12-bits-lzw": packed(12, "COMPRESS=LZW"),
        "gdal-sparse": sparse,
        "bits-1": bilevel(compression=None),
        "bits-1-packbits": bilevel(compression="packbits"),
        "sparse-zstd": sparse_tiles,
    }


def bilevel(**options: Any) -> Write:
    """A file of 1 bit per pixel."""

    def write(path: Path, seed: int = 0) -> None:
        data = pixels((70, 100), "uint8", seed) % 3 == 0
        tifffile.imwrite(path, data, photometric="minisblack", metadata=None, **options, **TILES)

    return write


def packed(bits: int, *options: str) -> Write:
    """A file of GDAL with so many bits per pixel, in tiles."""

    def write(path: Path, seed: int = 0) -> None:
        dtype = np.uint8 if bits <= 8 else np.uint16
        data = pixels((70, 100), dtype, seed) % (1 << bits)
        with _source_of(path) as source:
            tifffile.imwrite(source, data, photometric="minisblack", metadata=None)
            _translate(source, path, (f"NBITS={bits}", *_GDAL_TILES, *options))

    return write


def sparse(path: Path, seed: int = 0) -> None:
    """A file of GDAL that lacks tiles of the no-data value, 7."""
    data = np.full((70, 100), 7, np.uint16)
    data[32:64, 48:] = pixels((32, 52), "uint16", seed)
    with _source_of(path) as source:
        tifffile.imwrite(source, data, photometric="minisblack", metadata=None)
        options = (*_GDAL_TILES, "SPARSE_OK=TRUE", "COMPRESS=ZSTD")
        _translate(source, path, options, "-a_nodata", "7")


def sparse_tiles(path: Path, seed: int = 0) -> None:
    """A file of tifffile without its second and last tile."""
    data = pixels((70, 100), "uint16", seed)
    padded = np.pad(data, ((0, 26), (0, 44)))
    tiles = [padded[y : y + 32, x : x + 48] for y in (0, 32, 64) for x in (0, 48, 96)]
    tifffile.imwrite(
        path,
        iter([tiles[0], None, *tiles[2:-1], None]),
        shape=data.shape,
        dtype=data.dtype,
        compression="zstd",
        photometric="minisblack",
        metadata=None,
        **TILES,
    )


LAYOUTS: Mapping[str, Write] = {**_compressed(), **_of_images(), **_shapes()}
