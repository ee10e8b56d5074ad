"""Tiles of TIFF files are chunks: zarr-python decodes them to the pixels that tifffile reads."""

import base64
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
from sampling import Sample
from tiff_tiles import (
    DEFLATE,
    LZMA,
    LZW,
    PACKBITS,
    ZSTD,
    decoded,
    gdal,
    image,
    pixels,
    plain,
    predicted,
    tile,
    write,
)

Json = Any
pytestmark = pytest.mark.filterwarnings("ignore:Numcodecs codecs are not in the Zarr")
COMPRESSIONS = {
    "lzw": LZW,
    "packbits": PACKBITS,
    "deflate": DEFLATE,
    "lzma": LZMA,
    "zstd": ZSTD,
}


def assert_same(path: Path, codecs: list[Json], *leading: int) -> None:
    data, expected, _ = tile(path, 1)
    found = decoded(data, codecs, expected.dtype, (*leading, *expected.shape))
    assert found.dtype == expected.dtype
    assert np.array_equal(found.reshape(expected.shape), expected)


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int16", "float32", "float64"])
@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_compressed_tiles(tmp_path: Path, compression: str, dtype: str, sample: Sample) -> None:
    kinds = [(samples, order) for samples in (1, 3, 4) for order in "<>"]
    for samples, byte_order in sample.chance.sample(kinds, sample.count(len(kinds), default=1)):
        check_compressed_tiles(tmp_path, compression, dtype, samples, byte_order)


def check_compressed_tiles(
    tmp_path: Path, compression: str, dtype: str, samples: int, byte_order: str
) -> None:
    floating = np.dtype(dtype).kind == "f"
    axis = -2 if samples > 1 else -1
    for predictor in (1, 3) if floating else (1, 2):
        path = write(
            tmp_path / "a.tif",
            pixels(dtype, samples),
            compression=compression,
            predictor=predictor,
            byteorder=byte_order,
        )
        chain = [*predicted(predictor, byte_order, axis), COMPRESSIONS[compression]]
        assert_same(path, chain, 1)


@pytest.mark.parametrize("byte_order", ["LITTLE", "BIG"])
@pytest.mark.parametrize("samples", [1, 3])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_horizontal_differences_of_floats_are_those_of_their_bits(
    tmp_path: Path, dtype: str, samples: int, byte_order: str
) -> None:
    source = write(tmp_path / "a.tif", pixels(dtype, samples))
    options = ["COMPRESS=ZSTD", "PREDICTOR=2", f"ENDIANNESS={byte_order}"]
    path = gdal(source, tmp_path / "b.tif", *options)
    order = {"LITTLE": "<", "BIG": ">"}[byte_order]
    axis = -2 if samples > 1 else -1
    assert_same(path, [*predicted(2, order, axis), ZSTD], 1, 1)
    assert np.array_equal(tifffile.imread(path), pixels(dtype, samples))


@pytest.mark.parametrize("byte_order", ["LITTLE", "BIG"])
@pytest.mark.parametrize("bits", [1, 2, 4, 10, 12, 14])
def test_integers_of_fewer_bits_are_packed_by_rows(
    tmp_path: Path, bits: int, byte_order: str
) -> None:
    dtype = "uint8" if bits <= 8 else "uint16"
    data = (pixels(dtype, 1) % (1 << bits)).astype(dtype)[:, :45]
    source = write(tmp_path / "a.tif", data, tile=None)
    # Strips: a row of 45 elements ends within a byte.
    strips = [f"NBITS={bits}", f"ENDIANNESS={byte_order}"]
    packints = image("packints", bitspersample=bits, runlen=45)
    for compression, codec in (("NONE", []), ("LZW", [LZW]), ("PACKBITS", [PACKBITS])):
        path = gdal(source, tmp_path / "b.tif", *strips, f"COMPRESS={compression}", tiled=False)
        assert_same(path, [packints, *codec], 1)


# -- image formats


@pytest.mark.parametrize(
    ("compression", "codec", "dtype", "samples"),
    [
        ("jpeg2000", "jpeg2k", "uint8", 1),
        ("jpeg2000", "jpeg2k", "uint8", 3),
        ("jpeg2000", "jpeg2k", "uint16", 1),
        ("jpeg2000", "jpeg2k", "int16", 3),
        ("jpegxl", "jpegxl", "uint8", 1),
        ("jpegxl", "jpegxl", "uint8", 4),
        ("jpegxl", "jpegxl", "uint16", 3),
        ("jpegxl", "jpegxl", "float32", 1),
        ("jpegxr", "jpegxr", "uint8", 1),
        ("jpegxr", "jpegxr", "uint8", 3),
        ("jpegxr", "jpegxr", "uint16", 3),
        ("jpegxr", "jpegxr", "float32", 1),
        ("png", "png", "uint8", 1),
        ("png", "png", "uint8", 4),
        ("png", "png", "uint16", 3),
        ("webp", "webp", "uint8", 3),
        ("webp", "webp", "uint8", 4),
        ("lerc", "lerc", "uint8", 3),
        ("lerc", "lerc", "uint16", 1),
        ("lerc", "lerc", "float32", 1),
        ("lerc", "lerc", "float64", 3),
    ],
)
def test_tiles_that_are_images(
    tmp_path: Path, compression: str, codec: str, dtype: str, samples: int
) -> None:
    data = pixels(dtype, samples)
    if dtype == "float32":
        data /= 40  # JPEG XL and XR have floats from 0 to 1
    path = write(tmp_path / "a.tif", data, compression=compression)
    assert_same(path, [image(codec)], 1)


@pytest.mark.parametrize("outer", ["LERC", "LERC_DEFLATE", "LERC_ZSTD"])
@pytest.mark.parametrize("dtype", ["uint8", "uint16", "float32"])
def test_lerc_with_and_without_an_outer_compression_is_one_codec(
    tmp_path: Path, dtype: str, outer: str
) -> None:
    source = write(tmp_path / "a.tif", pixels(dtype, 3))
    assert_same(gdal(source, tmp_path / "b.tif", f"COMPRESS={outer}"), [image("lerc")], 1)


def test_floats_that_lerc_masks_are_nan(tmp_path: Path) -> None:
    data = pixels("float32", 1)
    data[3:5] = np.nan
    path = gdal(write(tmp_path / "a.tif", data), tmp_path / "b.tif", "COMPRESS=LERC")
    found = decoded(tile(path)[0], [image("lerc")], "float32", (16, 16))
    assert np.array_equal(found, data[:16, :16], equal_nan=True)


@pytest.mark.parametrize("samples", [3, 4])
@pytest.mark.parametrize("lossless", ["TRUE", "FALSE"])
def test_webp_of_gdal(tmp_path: Path, samples: int, lossless: str) -> None:
    source = write(tmp_path / "a.tif", pixels("uint8", samples))
    options = ["COMPRESS=WEBP", f"WEBP_LOSSLESS={lossless}"]
    configuration = {"hasalpha": True} if samples == 4 else {}
    assert_same(gdal(source, tmp_path / "b.tif", *options), [image("webp", **configuration)], 1)


@pytest.mark.parametrize("configuration", [{}, {"hasalpha": True}])
def test_opaque_webp_has_its_fourth_sample(tmp_path: Path, configuration: Json) -> None:
    data = pixels("uint8", 4)
    data[..., 3] = 255
    options = ["COMPRESS=WEBP", "WEBP_LOSSLESS=TRUE"]
    path = gdal(write(tmp_path / "a.tif", data), tmp_path / "b.tif", *options)
    found = decoded(tile(path)[0], [image("webp", **configuration)], "uint8", (1, 16, 16, 4))
    assert np.array_equal(found[0], data[:16, :16])


# -- JPEG


def jpeg(page: tifffile.TiffPage, **configuration: Any) -> list[Json]:
    if page.jpegtables is not None:
        configuration["tables"] = base64.b64encode(page.jpegtables).decode()
    return [image("jpeg", **configuration)]


@pytest.mark.parametrize(
    ("samples", "options", "configuration"),
    [
        (1, [], {}),
        (3, [], {"colorspace_jpeg": "RGB", "colorspace_data": "RGB"}),
        (3, ["PHOTOMETRIC=YCBCR"], {"colorspace_data": "RGB"}),
        (3, ["PHOTOMETRIC=YCBCR", "JPEGTABLESMODE=0"], {"colorspace_data": "RGB"}),
        (4, [], {}),
        (4, ["PHOTOMETRIC=CMYK"], {"colorspace_data": "CMYK"}),
    ],
)
def test_jpeg_with_the_tables_of_the_file(
    tmp_path: Path, samples: int, options: list[str], configuration: Json
) -> None:
    source = write(tmp_path / "a.tif", pixels("uint8", samples))
    path = gdal(source, tmp_path / "b.tif", "COMPRESS=JPEG", *options)
    _, _, page = tile(path)
    assert ("JPEGTABLESMODE=0" in options) == (page.jpegtables is None)
    assert_same(path, jpeg(page, **configuration), 1)


def test_planes_of_jpeg_are_gray(tmp_path: Path) -> None:
    source = write(tmp_path / "a.tif", pixels("uint8", 3))
    path = gdal(source, tmp_path / "b.tif", "COMPRESS=JPEG", "INTERLEAVE=BAND")
    with tifffile.TiffFile(path) as file:  # which does not decode it
        page = file.pages[0]
        start, size = page.dataoffsets[9], page.databytecounts[9]  # the first of the second plane
        data = path.read_bytes()[start : start + size]
        chain = jpeg(page)
    uncompressed = gdal(path, tmp_path / "c.tif", "COMPRESS=NONE", "INTERLEAVE=PIXEL")
    expected = tifffile.imread(uncompressed)[:16, :16, 1]
    assert np.array_equal(decoded(data, chain, "uint8", (1, 16, 16))[0], expected)


@pytest.mark.parametrize("subsampling", [(1, 1), (2, 1), (2, 2)])
def test_jpeg_with_fewer_samples_of_colour(tmp_path: Path, subsampling: tuple[int, int]) -> None:
    options = {"photometric": "ycbcr", "subsampling": subsampling, "compression": "jpeg"}
    path = write(tmp_path / "a.tif", pixels("uint8", 3), **options)
    assert_same(path, [image("jpeg", colorspace_data="RGB")], 1)


@pytest.mark.parametrize("arguments", [{"bitspersample": 12}, {"lossless": True}])
def test_jpeg_of_more_than_8_bits(tmp_path: Path, arguments: Json) -> None:
    data = pixels("uint8", 1).astype("uint16") * 16
    path = write(tmp_path / "a.tif", data, compression="jpeg", compressionargs=arguments)
    assert_same(path, jpeg(tile(path)[2]), 1)


# -- the LZW of files before TIFF 6


def old_lzw(data: bytes) -> bytes:
    """Codes of LZW from the least significant bit, which grow one code later than in TIFF 6."""
    table = {bytes([value]): value for value in range(256)}
    following, width, bits, filled = 258, 9, 0, 0

    def put(code: int) -> None:
        nonlocal bits, filled
        bits |= code << filled
        filled += width

    put(256)
    prefix = b""
    for value in data:
        longer = prefix + bytes([value])
        if longer in table:
            prefix = longer
            continue
        put(table[prefix])
        table[longer] = following
        following += 1
        width = max(width, (following - 1).bit_length())
        prefix = bytes([value])
    put(table[prefix])
    put(257)
    return bits.to_bytes(-(-filled // 8), "little")


def test_lzw_from_the_least_significant_bit() -> None:
    data = pixels("uint8", 1, 16)
    assert np.array_equal(decoded(old_lzw(data.tobytes()), [plain("<"), LZW], "u1", (16, 16)), data)
