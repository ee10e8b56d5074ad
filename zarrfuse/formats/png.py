"""PNG files whose size is known before the pixels are.

The data are deflate blocks without compression, so the size follows from width, height and channels. Used
by `views.images.render`. It must not know arrays of a store, or how their elements become 8-bit pixels.

Sources: PNG (W3C, third edition), Datastream structure and Chunk specifications; RFC 1950 (zlib);
RFC 1951, section 3.2.4 (non-compressed blocks).
"""

import struct
import zlib
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_COLOR_TYPES = {1: 0, 3: 2}  # channels: greyscale, truecolour
_CHUNK = 12  # length, type and CRC around the data of a chunk
_HEADER = 13  # data of IHDR
_ZLIB_HEADER = b"\x78\x01"  # deflate, window of 32 KiB, no preset dictionary
_BLOCK = 5  # bytes before each stored block
_BLOCK_MOST = 65535
_MOST = 2**31 - 1  # of a width, a height and the length of a chunk


def png_size(width: int, height: int, channels: Literal[1, 3]) -> int:
    """The size in bytes of the file that `png` makes of `height` rows of `width` pixels.

    `channels`: 1 for grey, 3 for RGB, of 8 bits each. Raises `ValueError` for a picture without pixels, and
    for one of 2 GiB or more.
    """
    return (
        len(_SIGNATURE) + _CHUNK + _HEADER + _CHUNK + _data_size(width, height, channels) + _CHUNK
    )


def png(pixels: NDArray[np.uint8]) -> bytes:
    """The bytes of the file for pixels of shape (height, width), grey, or (height, width, 3), RGB.

    Raises `ValueError` like `png_size`, and for another shape or type.
    """
    if pixels.dtype != np.uint8 or pixels.ndim not in (2, 3):
        raise ValueError(f"no PNG of {pixels.dtype} in {pixels.ndim} dimensions")
    height, width = pixels.shape[:2]
    channels = 1 if pixels.ndim == 2 else pixels.shape[2]
    length = _data_size(width, height, channels)
    header = struct.pack(">IIBBBBB", width, height, 8, _COLOR_TYPES[channels], 0, 0, 0)
    before = _SIGNATURE + _chunk(b"IHDR", header) + struct.pack(">I", length) + b"IDAT"
    file = np.empty(len(before) + length + 4 + _CHUNK, np.uint8)
    data = file[len(before) : len(before) + length]
    _store(_filtered(pixels.reshape(height, width * channels)), data)
    crc = zlib.crc32(data.data, zlib.crc32(b"IDAT"))
    file[: len(before)] = _bytes(before)
    file[len(before) + length :] = _bytes(struct.pack(">I", crc) + _chunk(b"IEND", b""))
    return file.tobytes()


def _data_size(width: int, height: int, channels: int) -> int:
    """The size in bytes of the data of IDAT."""
    if channels not in _COLOR_TYPES:
        raise ValueError(f"no PNG of {channels} channels")
    if not (0 < width <= _MOST and 0 < height <= _MOST):
        raise ValueError(f"no PNG of {width} x {height} pixels")
    size = height * (1 + width * channels)
    length = len(_ZLIB_HEADER) + -(-size // _BLOCK_MOST) * _BLOCK + size + 4
    if length > _MOST:
        raise ValueError(f"{width} x {height} pixels are too many for a PNG")
    return length


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def _bytes(data: bytes) -> NDArray[np.uint8]:
    return np.frombuffer(data, np.uint8)


def _filtered(rows: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The rows, each after a zero (no filter), in one dimension."""
    filtered = np.zeros((rows.shape[0], 1 + rows.shape[1]), np.uint8)
    filtered[:, 1:] = rows
    return filtered.reshape(-1)


def _store(raw: NDArray[np.uint8], data: NDArray[Any]) -> None:
    """Write `raw` to `data` as a zlib stream of blocks without compression."""
    data[:2] = _bytes(_ZLIB_HEADER)
    data[-4:] = _bytes(struct.pack(">I", zlib.adler32(raw.data)))
    at = 2
    for start in range(0, len(raw), _BLOCK_MOST):
        block = raw[start : start + _BLOCK_MOST]
        last, size = start + len(block) == len(raw), len(block)
        data[at : at + _BLOCK] = _bytes(struct.pack("<BHH", last, size, size ^ 0xFFFF))
        at += _BLOCK + size
        data[at - size : at] = block
