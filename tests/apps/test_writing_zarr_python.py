"""zarr-python, xarray and dask write arrays that are stored with a suffix in parts, in the `plain` view.

They do not know of either. What is stored is held byte for byte to what zarr-python writes into a plain
folder. Its own tests of a store are in `tests/zarr_python/test_local_store_on_a_mount.py`.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask
import numpy as np
import tensorstore
import xarray
import zarr
from builders.documents import concat_parts, group, suffix_keys
from builders.folders import files_below
from builders.mounts import zarrfuse
from write_by_tensorstore import INNER, SHARD, metadata

Mounted = Callable[..., Path]

SIDE = 96
INDEX_BYTES = (SHARD // INNER) ** 2 * 16 + 4
HEADER_BYTES = 100
PARTS: tuple[tuple[str, int | None], ...] = (
    (".header", HEADER_BYTES),
    ("", None),
    (".index", INDEX_BYTES),
)
SUFFIX = ".shard"
NEW: tuple[dict[str, Any], ...] = (
    {"chunks": (30, 30)},
    {"chunks": (8, 8), "shards": (32, 32), "compressors": None},
    {"chunks": (50, 96), "chunk_key_encoding": {"name": "v2", "separator": "."}},
    {"chunks": (50, 50), "chunk_key_encoding": suffix_keys(".zst")},
)
"""Options of new arrays."""


def write_empty(folder: Path, **members: Any) -> None:
    """An array of shards without chunks, stored with a suffix in three parts."""
    folder.mkdir(parents=True)
    written = [name if size is None else (name, size) for name, size in PARTS]
    document = metadata(
        shape=[SIDE, SIDE],
        chunk_key_encoding=suffix_keys(SUFFIX),
        storage_transformers=[concat_parts(*written)],
        **members,
    )
    (folder / "zarr.json").write_text(json.dumps(document, indent=2))


def stored_chunks(folder: Path) -> dict[str, bytes]:
    """The chunks as core Zarr has them, made of the stored parts. Fails for any other file."""
    stored = {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }
    del stored["zarr.json"]
    chunks = {}
    while stored:
        key = next(iter(stored)).partition(SUFFIX)[0]
        pieces = [stored.pop(f"{key}{SUFFIX}{part}") for part, _ in PARTS]
        assert len(pieces[0]) == HEADER_BYTES
        assert len(pieces[2]) == INDEX_BYTES
        chunks[key] = b"".join(pieces)
    return chunks


def chunks_of(folder: Path) -> dict[str, bytes]:
    """The chunks of an array that is stored in no other way."""
    return {f"c/{key}": data for key, data in files_below(folder / "c").items()}


def change(array: Any, values: np.ndarray) -> None:
    """What a program does with an array in the course of time."""
    array[...] = values
    array.resize((SIDE + SHARD, SIDE))
    array[SIDE:, : SHARD + 5] = values[:SHARD, : SHARD + 5]
    array[3:7, 9:70] = 77
    array.update_attributes({"made": "by zarr-python", "count": [1, 2]})
    array.resize((SIDE + SHARD, SIDE - SHARD))
    array[:SHARD, :SHARD] = 0  # all fill values: such a chunk is deleted
    array[0, 0] = 5
    array[:SHARD, SHARD : 2 * SHARD] = 0


def some_values() -> np.ndarray:
    """No zero, which is the fill value."""
    return np.random.default_rng(5).integers(1, 2**32, (SIDE, SIDE), "<u4")


def test_an_array_in_parts_is_written_resized_and_deleted(tmp_path: Path, mounted: Mounted) -> None:
    source, folder = tmp_path / "source", tmp_path / "folder"
    write_empty(source / "group/array", attributes={"kept": True})
    (source / "group/zarr.json").write_bytes(group())
    before = json.loads((source / "group/array/zarr.json").read_bytes())
    mount = mounted(source, "--view", "plain", "--read-write")
    (folder / "array").mkdir(parents=True)
    (folder / "array/zarr.json").write_bytes((mount / "group/array/zarr.json").read_bytes())

    for path in (mount / "group/array", folder / "array"):
        change(zarr.open_array(path, mode="r+"), some_values())
    expected = zarr.open_array(folder / "array", mode="r")
    array = zarr.open_group(mount / "group", mode="r")["array"]
    np.testing.assert_array_equal(array[...], expected[...])
    assert dict(array.attrs) == dict(expected.attrs)
    assert stored_chunks(source / "group/array") == chunks_of(folder / "array")
    after = json.loads((source / "group/array/zarr.json").read_bytes())
    for name in ("chunk_key_encoding", "storage_transformers"):
        assert after[name] == before[name]
    assert after["shape"] == [SIDE + SHARD, SIDE - SHARD]
    assert after["attributes"] == {"kept": True, "made": "by zarr-python", "count": [1, 2]}

    del zarr.open_group(mount / "group", mode="r+")["array"]
    assert not (mount / "group/array").exists()
    assert not (source / "group/array").exists()


def test_arrays_that_are_made_through_the_mount_are_stored_as_given(
    tmp_path: Path, mounted: Mounted
) -> None:
    source, folder = tmp_path / "source", tmp_path / "folder"
    source.mkdir()
    mount = mounted(source, "--view", "plain", "--read-write")
    for root in (mount, folder):
        made = zarr.create_group(root, attributes={"of": "arrays"})
        for number, options in enumerate(NEW):
            name = f"a{number}"
            made.create_array(name, shape=(SIDE, SIDE), dtype="u4", **options)
            # Opened anew: one who made it with other chunk keys would not use those that are shown.
            zarr.open_array(root / name, mode="r+")[...] = some_values()
    zarrfuse("unmount", mount)
    stored = {
        path.relative_to(source): path.read_bytes() for path in source.rglob("*") if path.is_file()
    }
    expected = {
        path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }
    assert stored.keys() == expected.keys()
    assert stored == expected


def test_regions_of_an_array_are_written_by_threads_of_dask(
    tmp_path: Path, mounted: Mounted
) -> None:
    source = tmp_path / "source"
    write_empty(source / "pixels", dimension_names=["y", "x"])
    (source / "zarr.json").write_bytes(group())
    mount = mounted(source, "--view", "plain", "--read-write")
    values = some_values()
    with dask.config.set(scheduler="threads", num_workers=4):
        for top in range(0, SIDE, SHARD):
            rows = values[top : top + SHARD]
            data = xarray.Dataset({"pixels": (("y", "x"), rows)}).chunk({"y": SHARD, "x": SHARD})
            data.to_zarr(
                mount,
                region={"y": slice(top, top + SHARD), "x": slice(0, SIDE)},
                zarr_format=3,
                consolidated=False,
            )
    read = xarray.open_zarr(mount, zarr_format=3, consolidated=False)["pixels"]
    np.testing.assert_array_equal(read.values, values)
    assert len(stored_chunks(source / "pixels")) == (SIDE // SHARD) ** 2
    store = {"driver": "file", "path": f"{mount}/pixels/"}
    other = tensorstore.open({"driver": "zarr3", "kvstore": store}, read=True).result()
    np.testing.assert_array_equal(other.read().result(), values)
