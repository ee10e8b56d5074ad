"""Headers that lie: one sentence, no memory and no time, however much they promise."""

import io
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from builders.processes import peak_bytes
from builders.tiff_files import LAYOUTS
from hostile_tiff import (
    BITS,
    COMPRESSION,
    COUNTS,
    DESCRIPTION,
    GRAY,
    IFD,
    LENGTH,
    OFFSETS,
    ROWS,
    SAMPLES,
    SUBIFDS,
    TILE_COUNTS,
    TILE_LENGTH,
    TILE_OFFSETS,
    TILE_WIDTH,
    WIDTH,
    tiff,
)
from sampling import Sample

from zarrfuse.shards.layout import MISSING, FileArray, Refused
from zarrfuse.shards.reading import read_arrays
from zarrfuse.shards.tiff import read_tiff

MOST = 2**32 - 1
TILES = {OFFSETS: None, COUNTS: None, TILE_OFFSETS: 8, TILE_COUNTS: 256}


def ome(**sizes: int) -> str:
    sizes = {"SizeX": 16, "SizeY": 16, "SizeZ": 1, "SizeC": 1, "SizeT": 1, **sizes}
    members = " ".join(f'{name}="{size}"' for name, size in sizes.items())
    return (
        '<?xml version="1.0"?><OME xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06">'
        f'<Image ID="Image:0"><Pixels ID="Pixels:0" DimensionOrder="XYCZT" Type="uint8" {members}>'
        '<Channel ID="Channel:0:0" SamplesPerPixel="1"/><TiffData/></Pixels></Image></OME>'
    )


def read(content: bytes) -> list[FileArray]:
    return read_tiff("a.tif", io.BytesIO(content))


def test_the_example_without_lies_is_read() -> None:
    (array,) = read(tiff(GRAY))
    assert array.shape == (16, 16)
    assert (array.offsets.item(), array.sizes.item()) == (8, 256)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (tiff(GRAY, following=-1), "list of pages is damaged"),
        (tiff(GRAY, following=10**9), "is cut off: page 1 would be beyond its 378 bytes"),
        (tiff({**GRAY, OFFSETS: MOST}), "is cut off: its pixels reach beyond its 378 bytes"),
        (tiff({**GRAY, COUNTS: MOST}), "is cut off: its pixels reach beyond its 378 bytes"),
        (tiff({**GRAY, COUNTS: 10}), "has a tile or strip of less than 256 bytes"),
        (tiff(GRAY, counts={OFFSETS: MOST}), "byte counts"),
        (tiff({**GRAY, WIDTH: MOST, LENGTH: MOST}), "has 1 tiles or strips where"),
        (tiff({**GRAY, LENGTH: MOST, ROWS: 1}), "has 1 tiles or strips where"),
        (
            tiff({**GRAY, **TILES, WIDTH: MOST, LENGTH: MOST, TILE_WIDTH: 16, TILE_LENGTH: 16}),
            "has 1 tiles or strips where its size needs 72057594037927936",
        ),
        (tiff({**GRAY, **TILES, TILE_WIDTH: 2**31, TILE_LENGTH: 2**31}), "less than"),
        (tiff({**GRAY, **TILES, TILE_WIDTH: 0, TILE_LENGTH: 0}), "without pixels"),
        (tiff({**GRAY, WIDTH: 0}), "without pixels"),
        (tiff({**GRAY, ROWS: 0}), "without pixels"),
        (tiff({**GRAY, SAMPLES: 65535}), "less than"),
        (tiff({**GRAY, SAMPLES: 2**31, 284: 2}), "has 1 tiles or strips where"),
        (tiff({**GRAY, BITS: 2**31}), "of a type that Zarr lacks"),
        (
            tiff({**GRAY, DESCRIPTION: '{"shape": [1000000000, 16, 16]}'}),
            "its 1000000000 planes reach beyond",
        ),
        (tiff({**GRAY, DESCRIPTION: ome(SizeZ=10**9)}), "its OME-XML says 1000000000 planes"),
        (tiff({**GRAY, DESCRIPTION: ome(SizeZ=10**5, SizeT=10**5)}), "10000000000 planes"),
        (tiff({**GRAY, DESCRIPTION: ome(SizeZ=int("9" * 30))}), "planes"),
        (b"", "is not a TIFF file"),
        (b"II*\0", "is not a TIFF file"),
        (struct.pack("<2sHI", b"II", 42, 0), "has no image; perhaps it is cut off"),
        (struct.pack("<2sHI", b"II", 42, 10**9), "has no image; perhaps it is cut off"),
        (struct.pack("<2sHIH", b"II", 42, 8, 65535), "is not a TIFF file"),
        (b"this is a text " * 10, "is not a TIFF file"),
    ],
)
def test_a_lie_is_one_sentence_that_names_the_file(content: bytes, says: str) -> None:
    before = peak_bytes()
    with pytest.raises(Refused) as refusal:
        read(content)
    assert str(refusal.value).startswith("a.tif: ")
    assert says in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert len(str(refusal.value)) < 300
    assert peak_bytes() - before < 64 << 20


def pages(count: int, back_to: int | None = None) -> bytes:
    """A file of so many pages with the same pixels; behind the last is that of the number `back_to`."""
    one = tiff(GRAY)
    entries = one[IFD : IFD + 2 + 12 * len(GRAY)]
    offsets = [IFD + (len(entries) + 4) * number for number in range(count)]
    following = [*offsets[1:], 0 if back_to is None else offsets[back_to]]
    return one[:IFD] + b"".join(entries + struct.pack("<I", offset) for offset in following)


@pytest.mark.parametrize("back_to", [0, 120, 149])
def test_a_long_chain_of_pages_in_circles_ends(back_to: int) -> None:
    """tifffile looks for circles once, at the hundredth page."""
    with pytest.raises(Refused, match="its list of pages is damaged behind page"):
        read(pages(150, back_to=back_to))


def test_more_than_a_hundred_pages_are_read() -> None:
    (array,) = read(pages(150))
    assert array.shape == (150, 16, 16)


@pytest.mark.parametrize("following", [264, 10**9, MOST])
def test_lists_of_smaller_levels_that_lie_are_left_out(following: int) -> None:
    for counts in ({}, {SUBIFDS: 2**31}):
        (array,) = read(tiff({**GRAY, SUBIFDS: following}, counts=counts))
        assert array.shape == (16, 16)


@pytest.mark.parametrize(
    "description",
    [
        "ImageJ=1.52\nimages=1000000000\nslices=1000000000\n",
        "ImageJ=1.52\nimages=-4\nslices=-4\n",
        '{"shape": [-1, 16, 16]}',
        ome(SizeZ=-5),
        ome(SizeZ=5).replace("</OME>", ""),
    ],
)
def test_a_description_of_other_pixels_is_not_believed(description: str) -> None:
    (array,) = read(tiff({**GRAY, DESCRIPTION: description}))
    assert array.shape == (16, 16)


def test_what_is_no_tiff_is_said_to_be_none() -> None:
    for content in (b"", b"text", b"\x89PNG\r\n\x1a\n"):
        with pytest.raises(Refused, match=r"a\.tif: is neither a TIFF nor an HDF5 file"):
            read_arrays("a.tif", io.BytesIO(content))


@pytest.mark.parametrize(
    ("tags", "says"),
    [
        ({COMPRESSION: 6}, "its compression OJPEG (6) has no Zarr codec"),
        ({COMPRESSION: 3}, "has no Zarr codec"),
        ({266: 2}, "its bits are in reverse order: write it anew with tiffcp -f msb2lsb"),
        ({317: 3}, "its predictor"),
    ],
)
def test_what_no_codec_expresses_is_refused(tags: dict[int, int], says: str) -> None:
    with pytest.raises(Refused) as refusal:
        read(tiff({**GRAY, **tags}))
    assert says in str(refusal.value)


FUZZED = ["pages", "imagej-one-ifd", "ome", "bigtiff", "jpeg-gdal", "geotiff-nodata", "volume"]


@pytest.mark.parametrize("name", FUZZED)
def test_any_damaged_header_is_refused_or_read_within_the_file(
    tmp_path: Path, name: str, sample: Sample
) -> None:
    LAYOUTS[name](tmp_path / "a.tif", 0)
    intact = (tmp_path / "a.tif").read_bytes()
    below = sample.chance.randrange
    for _ in sample.steps(400, every=4):
        content = _damaged(intact, below)
        try:
            arrays = read(content)
        except Refused as refusal:
            assert "\n" not in str(refusal)
            assert len(str(refusal)) < 400
            continue
        for array in arrays:
            assert array.offsets.shape == array.sizes.shape == array.grid
            stored = array.offsets != MISSING
            assert np.all(array.offsets[stored] + array.sizes[stored] <= len(content))


def _damaged(content: bytes, below: Callable[[int], int]) -> bytes:
    changed = bytearray(content)
    for _ in range(1 + below(3)):
        near = below(min(2000, len(content)))
        at = near if below(3) else len(content) - 1 - near
        new = [bytes([below(256)]), b"\xff" * 4, b"\0" * 4, b"\xff\xff\xff\x7f", b"\xff" * 8]
        piece = new[below(len(new))]
        changed[at : at + len(piece)] = piece
    return bytes(changed[: below(len(changed))] if below(20) == 0 else changed)
