"""Headers of TIFF files with values that no writer makes."""

import struct
from collections.abc import Mapping
from typing import Any

WIDTH, LENGTH, BITS, COMPRESSION, PHOTOMETRIC = 256, 257, 258, 259, 262
DESCRIPTION, OFFSETS, SAMPLES, ROWS, COUNTS = 270, 273, 277, 278, 279
SUBIFDS, TILE_WIDTH, TILE_LENGTH, TILE_OFFSETS, TILE_COUNTS = 330, 322, 323, 324, 325

IFD = 8 + 256
"""Where the IFD is: behind the header and the pixels."""

GRAY: Mapping[int, Any] = {
    WIDTH: 16,
    LENGTH: 16,
    BITS: 8,
    COMPRESSION: 1,
    PHOTOMETRIC: 1,
    OFFSETS: 8,
    SAMPLES: 1,
    ROWS: 16,
    COUNTS: 256,
}
"""The tags of 16 x 16 gray pixels, which are behind the header."""


def tiff(
    tags: Mapping[int, Any],
    *,
    following: int = 0,
    counts: Mapping[int, int] | None = None,
) -> bytes:
    """A file with 256 bytes of pixels and one IFD.

    Args:
        tags: Of the IFD: numbers, or text. None leaves a tag out.
        following: The offset of the next IFD; -1 is the first one again.
        counts: What tags say of how many values they have.
    """

    kept = {tag: value for tag, value in sorted(tags.items()) if value is not None}
    behind = IFD + 2 + 12 * len(kept) + 4
    entries, texts = b"", b""
    for tag, value in kept.items():
        if isinstance(value, str):
            text = value.encode() + b"\0"
            entries += struct.pack("<HHII", tag, 2, len(text), behind + len(texts))
            texts += text
        else:
            count = (counts or {}).get(tag, 1)
            entries += struct.pack("<HHII", tag, 4, count, value)
    pixels = bytes(range(256))
    following = IFD if following == -1 else following
    head = struct.pack("<2sHI", b"II", 42, IFD) + pixels + struct.pack("<H", len(kept))
    return head + entries + struct.pack("<I", following) + texts
