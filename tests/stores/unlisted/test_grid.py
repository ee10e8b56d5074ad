"""The names of chunks made from a grid are the names that zarr-python stores."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from builders.documents import array, v2_keys
from hypothesis import given, settings
from hypothesis import strategies as st
from sampling import examples

from zarrfuse.spec.chunk_keys import METADATA_NAMES, DefaultEncoding, SuffixEncoding, V2Encoding
from zarrfuse.spec.concat_parts import Part, StoredParts
from zarrfuse.spec.node import ArrayNode
from zarrfuse.spec.node_v2 import parse_v2_array
from zarrfuse.spec.node_v3 import parse_v3
from zarrfuse.stores.unlisted.grid import chunk_folder


def walked(node: ArrayNode, folder: str = "") -> Iterator[str]:
    """The files in and below a folder, in the order of the listings."""
    listing = chunk_folder(node, folder)
    assert listing is not None
    names = list(listing.files)
    assert len(listing.files) == len(names)
    for name in names:
        assert name in listing.files and listing.files[name] is None
        yield f"{folder}/{name}" if folder else name
    for name in listing.folders:
        yield from walked(node, f"{folder}/{name}" if folder else name)


def stored(folder: Path) -> set[str]:
    return {
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and path.name not in METADATA_NAMES
    }


KEYS: dict[str, dict[str, Any]] = {
    "default-slash": {},
    "default-dot": {"chunk_key_encoding": {"name": "default", "separator": "."}},
    "v2-dot": {"chunk_key_encoding": {"name": "v2", "separator": "."}},
    "v2-slash": {"chunk_key_encoding": {"name": "v2", "separator": "/"}},
    "format2-dot": {"zarr_format": 2},
    "format2-slash": {"zarr_format": 2, "chunk_key_encoding": {"name": "v2", "separator": "/"}},
}
GRIDS = {
    "0d": ((), (), None),
    "1d": ((13,), (2,), None),
    "uneven": ((5, 7), (2, 3), None),
    "3d": ((3, 2, 4), (2, 2, 3), None),
    "one chunk": ((3, 3), (5, 5), None),
    "no chunks": ((3, 0), (1, 1), None),
    "sharded": ((8, 12), (2, 2), (4, 6)),
}


@pytest.mark.parametrize(
    ("keys", "grid"),
    [
        (keys, grid)
        for keys, grid in itertools.product(KEYS, GRIDS)
        if not (keys.startswith("format2") and grid == "sharded")  # Zarr v2 has no shards
    ],
)
def test_the_names_are_those_that_zarr_stores(tmp_path, keys, grid) -> None:
    shape, chunks, shards = GRIDS[grid]
    is_v2 = keys.startswith("format2")
    array = zarr.create_array(
        tmp_path, shape=shape, chunks=chunks, shards=shards, dtype="uint8", **KEYS[keys]
    )
    array[...] = np.full(shape, 7, "uint8")
    if is_v2:
        node = parse_v2_array((tmp_path / ".zarray").read_bytes())
    else:
        parsed = parse_v3((tmp_path / "zarr.json").read_bytes())
        assert isinstance(parsed, ArrayNode)
        node = parsed
    names = list(walked(node))
    assert len(names) == len(set(names))
    assert set(names) == stored(tmp_path)


PART_ENDINGS = st.sampled_from(["", ".crc", ".index", ".p/a", ".p/b", ".q/r/s", "/x/y"])
ENDINGS = st.sampled_from(["", ".tiff", "/data.tiff", ".d/data", ".d/e/data"])


def array_of(encoding: Any, grid: tuple[int, ...], endings: list[str] | None) -> ArrayNode:
    parts = None if endings is None else StoredParts(tuple(Part(end, None) for end in endings))
    return ArrayNode(3, grid, "uint8", (1,) * len(grid), encoding, (), parts)


@settings(max_examples=examples(300))
@given(
    base=st.sampled_from(
        [DefaultEncoding("/"), DefaultEncoding("."), V2Encoding("/"), V2Encoding(".")]
    ),
    suffix=ENDINGS,
    grid=st.lists(st.integers(1, 12), max_size=3).map(tuple),
    endings=st.none()
    | st.lists(
        st.sampled_from(["", ".crc", ".index", ".p/a", ".p/b", ".q/r/s", "/x/y"]),
        min_size=1,
        unique=True,
    ),
)
def test_suffixes_and_parts_are_listed_as_they_are_stored(base, suffix, grid, endings) -> None:
    encoding = SuffixEncoding(suffix, base) if suffix else base
    node = array_of(encoding, grid, endings)
    expected = [
        node.chunk_key(coords) + ending
        for coords in itertools.product(*map(range, grid))
        for ending in endings or [""]
    ]
    assert sorted(walked(node)) == sorted(expected)


@pytest.mark.parametrize("separator", ["/", "."])
def test_names_come_in_the_order_of_the_grid(separator) -> None:
    node = array_of(DefaultEncoding(separator), (11, 12), None)
    assert list(walked(node)) == [
        node.chunk_key(coords) for coords in itertools.product(range(11), range(12))
    ]


def test_a_folder_of_millions_is_listed_name_by_name() -> None:
    node = array_of(V2Encoding("."), (10**6, 10**6), None)
    listing = chunk_folder(node, "", {".zarray": None})
    assert listing is not None
    assert list(itertools.islice(listing.files, 3)) == [".zarray", "0.0", "0.1"]
    assert len(listing.files) == 10**12 + 1
    assert "999999.999999" in listing.files and "1000000.0" not in listing.files


def test_folders_of_chunks_are_whole_and_that_of_the_array_is_not() -> None:
    node = array_of(DefaultEncoding(), (3, 4), None)
    top, lead, row = (chunk_folder(node, folder) for folder in ("", "c", "c/2"))
    assert top is not None and lead is not None and row is not None
    assert not top.lacks("other") and not top.is_whole
    assert lead.lacks("3") and not lead.lacks("2")
    assert row.lacks("4") and row.lacks("03") and not row.lacks("3")


@pytest.mark.parametrize("folder", ["c/3", "c/0/0", "c/00", "c/x", "d", "0", "c/0/0/0", "c/-1"])
def test_a_folder_outside_the_grid_is_none(folder) -> None:
    assert chunk_folder(array_of(DefaultEncoding(), (3, 4), None), folder) is None


class Backwards:
    """An encoding of a plug-in."""

    name = "backwards"

    def encode(self, coords: Any) -> str:
        return "/".join(["x", *map(str, reversed(coords))])

    def decode(self, key: str, ndim: int) -> Any:
        names = key.split("/")
        return tuple(map(int, reversed(names[1:]))) if names[0] == "x" else None


def test_keys_of_a_plug_in_are_listed() -> None:
    node = array_of(Backwards(), (2, 3), None)
    assert sorted(walked(node)) == sorted(
        f"x/{j}/{i}" for i, j in itertools.product(range(2), range(3))
    )
    assert chunk_folder(node, "y") is None


def test_a_grid_larger_than_python_counts_is_a_folder() -> None:
    node = parse_v3(array([1 << 40, 1 << 40], [1, 1], chunk_key_encoding=v2_keys()))
    files = chunk_folder(node, "").files
    assert len(files) > 1 << 60
    assert f"{(1 << 40) - 1}.0" in files
