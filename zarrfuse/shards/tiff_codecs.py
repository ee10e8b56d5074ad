"""TIFF compressions and predictors as Zarr codecs.

Used by `tiff`. It must not know where tiles are.
"""

import base64
from collections.abc import Callable, Mapping
from typing import Any, Final

from zarrfuse.shards.layout import Refused

_ZSTD: Final = {"name": "zstd", "configuration": {"level": 0, "checksum": False}}
_ZLIB: Final = {"name": "numcodecs.zlib", "configuration": {"level": 6}}
_LZMA: Final = {
    "name": "numcodecs.lzma",
    "configuration": {"format": 1, "check": -1, "preset": None, "filters": None},
}

# TIFF's numbers of compressions of bytes. What is decoded is the pixels of a tile in C order.
_COMPRESSORS: Final[Mapping[int, list[dict[str, Any]]]] = {
    1: [],
    5: [{"name": "imagecodecs_lzw"}],
    8: [_ZLIB],
    32946: [_ZLIB],
    32773: [{"name": "imagecodecs_packbits"}],
    34925: [_LZMA],
    34926: [_ZSTD],
    50000: [_ZSTD],
}
_JPEG: Final = (7,)
_JPEG_2000: Final = (34712, 33004, 33005)
_YCBCR_JPEG_2000: Final = 33003  # of Aperio; Bio-Formats writes gray with it
_LERC: Final = 34887
_PACKED_BITS: Final = (1, 2, 4, 10, 12, 14)
_WEBP: Final = (34927, 50001)
# Those of pictures that decode without parameters.
_PICTURES: Final[Mapping[int, str]] = {
    34933: "imagecodecs_png",
    34934: "imagecodecs_jpegxr",
    22610: "imagecodecs_jpegxr",
    50002: "imagecodecs_jpegxl",
    52546: "imagecodecs_jpegxl",
}

_RECODE: Final = "write it anew with another compression, for example: tiffcp -c lzw, or -c zip"


def inner_codecs(page: Any, fail: Callable[[str], Refused]) -> list[dict[str, Any]]:
    """The codecs of a tile or strip of a `tifffile.TiffPage`, as in a `zarr.json`.

    `fail`: makes the error of a reason. Raises it for what no codec expresses exactly.
    """
    _check_samples(page, fail)
    compression = int(page.compression)
    if compression in _COMPRESSORS:
        return [*_predicted(page, fail), *_COMPRESSORS[compression]]
    if compression in _JPEG:
        return [_jpeg(page)]
    if compression == _YCBCR_JPEG_2000 and page.samplesperpixel > 1:
        raise fail(f"its colours are YCbCr in JPEG 2000, which does not say so: {_RECODE}")
    if compression in (*_JPEG_2000, _YCBCR_JPEG_2000):
        return [{"name": "imagecodecs_jpeg2k"}]
    if compression in _WEBP:
        has_alpha = {"configuration": {"hasalpha": True}} if page.samplesperpixel == 4 else {}
        return [{"name": "imagecodecs_webp", **has_alpha}]
    if compression == _LERC:
        if page.dtype.itemsize > 1 and page.parent.byteorder == ">":
            raise fail(f"LERC in a big-endian file has its bytes swapped twice: {_RECODE}")
        return [{"name": "imagecodecs_lerc"}]  # which also decodes the zstd or deflate around it
    if compression in _PICTURES:
        return [{"name": _PICTURES[compression]}]
    raise fail(f"its compression {_title(page.compression)} has no Zarr codec: {_RECODE}")


def is_raw(page: Any) -> bool:
    """Whether tiles or strips are the bytes of their pixels."""
    return int(page.compression) == 1 and int(page.predictor) == 1 and not _is_packed(page)


def _is_packed(page: Any) -> bool:
    """Whether pixels have fewer bits than the elements of an array."""
    return int(page.compression) in _COMPRESSORS and page.bitspersample != page.dtype.itemsize * 8


def _check_samples(page: Any, fail: Callable[[str], Refused]) -> None:
    dtype = page.dtype
    bits = page.bitspersample
    if dtype is None or dtype.kind not in "uifcb":
        raise fail(f"its pixels, of {bits} bits, are of a type that Zarr lacks")
    if _is_packed(page) and not (
        bits in _PACKED_BITS
        and dtype.kind in "ub"
        and page.samplesperpixel == 1
        and int(page.predictor) == 1
    ):
        help_ = f"write it anew with {dtype.itemsize * 8} bits, for example by tifffile"
        raise fail(f"its pixels of {bits} bits are packed, which no Zarr codec expresses: {help_}")
    if page.is_ndpi:
        help_ = "write it anew, for example: vips copy in.ndpi 'out.tif[tile,pyramid]'"
        raise fail(f"is an NDPI file, whose tiles are no files of JPEG: {help_}")
    if page.is_subsampled and int(page.compression) not in _JPEG:
        raise fail("its colours are subsampled without JPEG, which no Zarr codec expresses")
    if int(page.fillorder) == 2 and int(page.compression) in _COMPRESSORS:
        raise fail("its bits are in reverse order: write it anew with tiffcp -f msb2lsb")


def _predicted(page: Any, fail: Callable[[str], Refused]) -> list[dict[str, Any]]:
    """What makes bytes of pixels: predictor and byte order."""
    dtype = page.dtype
    if _is_packed(page):
        width = page.tilewidth if page.is_tiled else page.imagewidth
        row = {"bitspersample": page.bitspersample, "runlen": width}  # each row begins with a byte
        return [{"name": "imagecodecs_packints", "configuration": row}]
    order = "big" if page.parent.byteorder == ">" else "little"
    with_order = {"configuration": {"endian": order}} if dtype.itemsize > 1 else {}
    to_bytes = {"name": "bytes", **with_order}
    # Differences are of neighbours in a row; the samples of a pixel, if they are together, are behind.
    axis = -2 if page.samplesperpixel > 1 and int(page.planarconfig) == 1 else -1
    along = {"configuration": {"axis": axis, "dist": 1}}
    predictor = int(page.predictor)
    if predictor == 1:
        return [to_bytes]
    if predictor == 2 and dtype.kind in "uif":  # of floats, differences of their bits
        return [{"name": "imagecodecs_delta", **along}, to_bytes]
    if predictor == 3 and dtype.kind == "f":
        return [{"name": "imagecodecs_floatpred", **along}]
    raise fail(f"its predictor {_title(page.predictor)} of {dtype} has no Zarr codec: {_RECODE}")


def _jpeg(page: Any) -> dict[str, Any]:
    configuration: dict[str, Any] = {}
    if page.jpegtables is not None:
        configuration["tables"] = base64.b64encode(page.jpegtables).decode()
    photometric, planar = int(page.photometric), int(page.planarconfig) != 1
    if planar:
        configuration["colorspace_data"] = "GRAYSCALE"
    elif not page.extrasamples:
        if photometric == 6:  # stored as YCbCr, shown as RGB
            configuration["colorspace_data"] = "RGB"
        elif photometric == 2:
            configuration["colorspace_data"] = "RGB"
            if not page.is_jfif:  # else the tile itself says how its colours are stored
                configuration["colorspace_jpeg"] = "RGB"
        elif photometric == 5:
            configuration["colorspace_data"] = "CMYK"
    with_configuration = {"configuration": configuration} if configuration else {}
    return {"name": "imagecodecs_jpeg", **with_configuration}


def _title(number: Any) -> str:
    name = getattr(number, "name", None)
    return f"{name} ({int(number)})" if name else str(number)
