"""The Zarr arrays that are read, written under one temporary folder.

Owns what lies where and how large it is. The arrays are real: a `zarr.json` and chunks of the size
that follows from it, not compressed, so that a chunk file has exactly the bytes of its pixels.
"""

import json
import os
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PAGE = 4096
_BLOCK = 1 << 20
_HEADER_BYTES = 64
ARRAYS_OF_A_GROUP = 9


@dataclass(frozen=True)
class Sizes:
    """How much of everything: `large_bytes` in bytes, the rest in files and reads."""

    large_bytes: int = 1 << 30
    small_files: int = 20_000
    listed_files: int = 100_000
    random_reads: int = 40_000
    groups: int = 1_000

    @property
    def nodes(self) -> int:
        """Nodes of the hierarchy: a group of groups of `ARRAYS_OF_A_GROUP` arrays each."""
        return 1 + self.groups * (1 + ARRAYS_OF_A_GROUP)


QUICK = Sizes(64 << 20, 2_000, 10_000, 8_000, 100)
"""Shows that everything runs; too little to compare figures by."""


@dataclass(frozen=True)
class Datasets:
    """One folder, mounted as a whole for reading, and two arrays in it that are mounted alone."""

    root: Path
    sizes: Sizes
    names_file: Path
    """Names of the small chunk files, one a line, in the order they are read."""

    # Paths relative to `root`, as they are seen through a mount of it.
    large = "large/c/0"
    parts = ("parts/c/0.header", "parts/c/0", "parts/c/0.index")
    merged = "parts/c/0"
    small = "small/c"
    listed = "listed/c"
    hierarchy = "hierarchy"

    @property
    def ten(self) -> Path:
        """An array of ten chunks."""
        return self.root / "ten"

    @property
    def many(self) -> Path:
        """The array whose folder is listed."""
        return self.root / "listed"

    @property
    def parts_bytes(self) -> int:
        """Bytes of the chunk that is stored in parts."""
        return sum((self.root / part).stat().st_size for part in self.parts)


def write_datasets(folder: Path, sizes: Sizes) -> Datasets:
    """Write everything below `folder`, and leave it in the page cache with nothing to write back."""
    datasets = Datasets(folder / "data", sizes, folder / "names.txt")
    root = datasets.root
    root.mkdir()
    _write_metadata(root / "large", sizes.large_bytes, sizes.large_bytes)
    _write_large(root / datasets.large, sizes.large_bytes)
    _write_parts(datasets)
    _write_small_chunks(root / "small", sizes.small_files, PAGE)
    _write_small_chunks(root / "listed", sizes.listed_files, 64)
    _write_small_chunks(root / "ten", 10, 64)
    _write_hierarchy(root / datasets.hierarchy, sizes.groups)
    names = sorted(os.listdir(root / datasets.small), key=int)
    datasets.names_file.write_text("".join(f"{name}\n" for name in names))
    os.sync()
    return datasets


def _write_metadata(
    array: Path, nbytes: int, chunk_bytes: int, transformers: list[dict[str, Any]] | None = None
) -> None:
    """`zarr.json` of a flat array of bytes, in chunks of `chunk_bytes`.

    With transformers, a chunk is a shard of 16 pieces whose index is its end.
    """
    codecs: list[dict[str, Any]] = [{"name": "bytes"}]
    if transformers is not None:
        index_codecs = [{"name": "bytes", "configuration": {"endian": "little"}}]
        codecs = [
            {
                "name": "sharding_indexed",
                "configuration": {
                    "chunk_shape": [chunk_bytes // 16],
                    "codecs": [{"name": "bytes"}],
                    "index_codecs": index_codecs,
                    "index_location": "end",
                },
            }
        ]
    metadata = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [nbytes],
        "data_type": "uint8",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [chunk_bytes]}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": 0,
        "codecs": codecs,
        "storage_transformers": transformers or [],
    }
    (array / "c").mkdir(parents=True)
    (array / "zarr.json").write_text(json.dumps(metadata, indent=2))


def _write_large(path: Path, nbytes: int) -> None:
    block = os.urandom(_BLOCK)
    with path.open("wb") as file:
        for number in range(nbytes // _BLOCK):
            file.write(struct.pack("<Q", number) + block[8:])


def _write_parts(datasets: Datasets) -> None:
    """The large chunk once more, as three parts; its bytes are the same file, by a hard link."""
    nbytes = datasets.sizes.large_bytes
    piece = nbytes // 16
    index = b"".join(struct.pack("<QQ", _HEADER_BYTES + i * piece, piece) for i in range(16))
    transformers = [_three_parts(len(index))]
    _write_metadata(datasets.root / "parts", nbytes, nbytes, transformers)
    header, main, tail = (datasets.root / part for part in datasets.parts)
    header.write_bytes(b"header of a chunk\n".ljust(_HEADER_BYTES, b"\0"))
    main.hardlink_to(datasets.root / datasets.large)
    tail.write_bytes(index)


def _three_parts(index_bytes: int) -> dict[str, Any]:
    return {
        "name": "concat-parts",
        "configuration": {
            "parts": [
                {"key_suffix": ".header", "size": _HEADER_BYTES},
                {"key_suffix": ""},
                {"key_suffix": ".index", "size": index_bytes},
            ]
        },
    }


def _write_hierarchy(root: Path, groups: int) -> None:
    """Many nodes and no chunks: arrays of parts, in groups, in one group."""
    document = json.dumps({"zarr_format": 3, "node_type": "group"}, indent=2)
    transformers = [_three_parts(16 * 16)]
    for number in range(groups):
        group = root / f"g{number}"
        for member in range(ARRAYS_OF_A_GROUP):
            _write_metadata(group / f"a{member}", 1 << 30, 1 << 20, transformers)
        (group / "zarr.json").write_text(document)
    (root / "zarr.json").write_text(document)


def _write_small_chunks(array: Path, count: int, chunk_bytes: int) -> None:
    _write_metadata(array, count * chunk_bytes, chunk_bytes)
    block = os.urandom(chunk_bytes)
    folder = os.open(array / "c", os.O_RDONLY | os.O_DIRECTORY)
    try:
        for number in range(count):
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
            file = os.open(str(number), flags, 0o644, dir_fd=folder)
            os.write(file, block)
            os.close(file)
    finally:
        os.close(folder)
