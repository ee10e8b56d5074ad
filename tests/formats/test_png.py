"""PNG files: exactly as large as said before, and the pixels come back, whoever decodes them."""

import struct
import subprocess
import zlib
from collections.abc import Iterator
from pathlib import Path

import imagecodecs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zarrfuse.formats.png import png, png_size

# Envelope the 65,535 bytes that a stored block holds, and around the largest picture of an array.
EDGES = [
    (65534, 1, 1),
    (65535, 1, 1),
    (65536, 1, 1),
    (1, 32767, 1),
    (1, 32768, 1),
    (4, 5041, 3),
    (254, 257, 1),
    (1024, 1024, 3),
    (1024, 1, 3),
    (1, 1, 1),
]


def _pixels(width: int, height: int, channels: int) -> np.ndarray:
    shape = (height, width) if channels == 1 else (height, width, channels)
    return np.random.default_rng(width).integers(0, 256, shape, np.uint8)


def _chunks(file: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = 8
    while at < len(file):
        (length,) = struct.unpack_from(">I", file, at)
        name, data = file[at + 4 : at + 8], file[at + 8 : at + 8 + length]
        assert struct.unpack_from(">I", file, at + 8 + length) == (zlib.crc32(name + data),)
        yield name, data
        at += 12 + length


@given(st.integers(1, 300), st.integers(1, 300), st.sampled_from([1, 3]))
def test_decoder_gives_back_pixels_of_any_picture_whose_size_was_foretold(
    width: int, height: int, channels: int
) -> None:
    pixels = _pixels(width, height, channels)
    file = png(pixels)
    assert len(file) == png_size(width, height, channels)
    assert np.array_equal(imagecodecs.png_decode(file), pixels)


@pytest.mark.parametrize(("width", "height", "channels"), EDGES)
def test_sizes_are_exact_around_the_ends_of_stored_blocks(
    width: int, height: int, channels: int
) -> None:
    pixels = _pixels(width, height, channels)
    file = png(pixels)
    assert len(file) == png_size(width, height, channels)
    assert np.array_equal(imagecodecs.png_decode(file), pixels)


def test_chunks_are_header_data_end_and_zlib_reads_the_data() -> None:
    pixels = _pixels(300, 500, 3)
    (first, header), (second, data), (third, end) = _chunks(png(pixels))
    assert (first, second, third, end) == (b"IHDR", b"IDAT", b"IEND", b"")
    assert struct.unpack(">IIBBBBB", header) == (300, 500, 8, 2, 0, 0, 0)
    rows = np.frombuffer(zlib.decompress(data), np.uint8).reshape(500, 901)
    assert not rows[:, 0].any()
    assert np.array_equal(rows[:, 1:].reshape(500, 300, 3), pixels)


def test_pixels_that_are_not_contiguous_come_back() -> None:
    pixels = _pixels(40, 30, 3)
    assert np.array_equal(imagecodecs.png_decode(png(pixels[::-1, ::2])), pixels[::-1, ::2])
    assert np.array_equal(imagecodecs.png_decode(png(pixels[..., 1])), pixels[..., 1])


def test_the_program_file_knows_a_png(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(png(_pixels(31, 17, 1)))
    said = subprocess.run(["file", "--brief", path], capture_output=True, text=True, check=True)
    assert said.stdout.startswith("PNG image data, 31 x 17, 8-bit grayscale, non-interlaced")


@pytest.mark.parametrize(
    ("width", "height", "channels"), [(0, 4, 1), (4, 0, 3), (-1, 4, 1), (4, 4, 2), (4, 4, 4)]
)
def test_what_png_has_not_is_refused(width: int, height: int, channels: int) -> None:
    with pytest.raises(ValueError, match="no PNG of"):
        png_size(width, height, channels)


def test_picture_longer_than_a_chunk_is_refused() -> None:
    with pytest.raises(ValueError, match="too many"):
        png_size(2**16, 2**15, 1)


@pytest.mark.parametrize(
    "pixels", [np.zeros((4, 4), np.uint16), np.zeros(4, np.uint8), np.zeros((0, 4), np.uint8)]
)
def test_pixels_of_another_type_or_shape_are_refused(pixels: np.ndarray) -> None:
    with pytest.raises(ValueError, match="no PNG of"):
        png(pixels)
