"""The arrays that other people's Zarr readers are asked to read, and the pixels they must find.

They are stored in parts, under keys with an extension, or with a generic extension in their metadata.
What they are read through is the tests' business; `dataset` and `concat_parts_examples` write most of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import google_crc32c
import numpy as np
from builders.concat_parts_examples import write_crc32c_example, write_header_example
from builders.documents import array, concat_parts

from zarrfuse.cli.demo_dataset import demo_image, write_demo

Region: TypeAlias = tuple[tuple[int, int], tuple[int, int]]
"""(start, stop) of rows and of columns."""

DEMO = "demo/cells.zarr"
CORE = (
    *(f"{DEMO}/{name}" for name in ("zstd", "raw", "strips", "header", "checksum")),
    *("crc32c", "header", "all-suffixed", "extended"),
)
"""Arrays whose codecs every reader knows."""
PACKED = "header-packbits"
"""The one whose inner chunks are encoded with `packbits`."""

_LARGEST_WHOLE = 2 << 20
_REGIONS: tuple[Region, ...] = (
    ((1400, 2100), (1900, 2600)),  # one inner chunk, and absent ones around it
    ((0, 600), (4400, 5200)),  # into the shard at 0, 1, which is absent
    ((7400, 8100), (4800, 10000)),  # a whole row of inner chunks
    ((9999, 10000), (9999, 10000)),
)


@dataclass(frozen=True)
class StoredArrays:
    """A folder of arrays, and the pixels of each by its path there."""

    folder: Path
    pixels: Mapping[str, np.ndarray]

    def regions(self, name: str) -> tuple[Region, ...]:
        """What to read of an array: all of it, or of a large one where it holds chunks and not."""
        height, width = self.pixels[name].shape
        return _REGIONS if height * width > _LARGEST_WHOLE else (((0, height), (0, width)),)

    def expected(self, name: str) -> list[np.ndarray]:
        """The pixels of these regions."""
        return [
            self.pixels[name][top:bottom, left:right]
            for (top, bottom), (left, right) in self.regions(name)
        ]


def write_arrays(folder: Path) -> StoredArrays:
    """Write all of them below `folder`."""
    write_demo(folder / "demo")
    image = demo_image()
    image8 = (image >> 8).astype(np.uint8)
    return StoredArrays(
        folder,
        {
            **{f"{DEMO}/{name}": image for name in ("zstd", "raw", "strips")},
            **{f"{DEMO}/{name}": image8 for name in ("header", "checksum")},
            "crc32c": write_crc32c_example(folder / "crc32c"),
            "header": write_header_example(folder / "header", "bytes"),
            PACKED: write_header_example(folder / PACKED, "packbits"),
            "all-suffixed": _write_all_suffixed(folder / "all-suffixed"),
            "extended": _write_extended(folder / "extended"),
        },
    )


def _write_all_suffixed(folder: Path) -> np.ndarray:
    """An array no part of which lies under a chunk's own key: who does not know, finds no chunk."""
    pixels = np.arange(1, 17, dtype=np.uint8).reshape(4, 4)
    transformers = [concat_parts(".raw", (".crc32c", 4))]
    codecs = [{"name": "bytes"}, {"name": "crc32c"}]
    _write(folder, "zarr.json", array(transformers=transformers, codecs=codecs))
    for row in range(2):
        for column in range(2):
            chunk = _chunk(pixels, row, column)
            _write(folder, f"c/{row}/{column}.raw", chunk)
            checksum = google_crc32c.value(chunk).to_bytes(4, "little")
            _write(folder, f"c/{row}/{column}.crc32c", checksum)
    return pixels


def _write_extended(folder: Path) -> np.ndarray:
    """An array with a generic extension (ZEP 10), which strict readers refuse; else as any other."""
    pixels = np.arange(101, 117, dtype=np.uint8).reshape(4, 4)
    extension = {"name": "example.offset", "configuration": {"offset": [5, 7]}}
    _write(folder, "zarr.json", array(extensions=[{**extension, "must_understand": False}]))
    for row in range(2):
        for column in range(2):
            _write(folder, f"c/{row}/{column}", _chunk(pixels, row, column))
    return pixels


def _chunk(pixels: np.ndarray, row: int, column: int) -> bytes:
    return pixels[row * 2 :, column * 2 :][:2, :2].tobytes()


def _write(folder: Path, key: str, data: bytes) -> None:
    (folder / key).parent.mkdir(parents=True, exist_ok=True)
    (folder / key).write_bytes(data)
