"""The store and a mount of the `plain` view give the same keys and the same bytes."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import zarr
from builders.concat_parts_examples import write_crc32c_example, write_header_example
from builders.documents import array, concat_parts, group, suffix_keys, v2_keys
from builders.folders import write_keys
from zarr.core.buffer import default_buffer_prototype
from zarr.core.sync import _collect_aiterator, sync

import zarrfuse


def write_seeds(folder: Path) -> None:
    """Both examples of the `concat-parts` document."""
    write_crc32c_example(folder / "crc32c")
    write_header_example(folder / "header")


def write_by_zarr_python(folder: Path) -> None:
    """What zarr-python writes itself, v2 and v3, with consolidated metadata."""
    root = zarr.create_group(folder / "v3")
    data = np.arange(100, dtype="f4").reshape(10, 10)
    root.create_array("sharded", data=data, chunks=(2, 2), shards=(4, 4))
    root.create_array("flat", data=data, chunks=(3, 3), chunk_key_encoding=v2_keys("."))
    root.create_array("scalar", data=np.array(3))
    root.create_group("group").create_array("inner", data=data, dimension_names=["y", "x"])
    zarr.consolidate_metadata(folder / "v3")
    zarr.create_array(folder / "v2", data=data, chunks=(4, 4), zarr_format=2)


def write_odds_and_ends(folder: Path) -> None:
    """Broken chunks, refused nodes, links, other files."""
    parts = array(keys=suffix_keys(".bin"), transformers=[concat_parts("", (".index", 2))])
    write_keys(
        folder,
        {
            "README.txt": b"read me",
            "g/zarr.json": group(attributes={"ä": [1, 2.5, None]}),
            "g/a/zarr.json": parts,
            "g/a/c/0/0.bin": b"12",
            "g/a/c/0/0.bin.index": b"34",
            "g/a/c/0/1.bin": b"12",  # its index is missing
            "g/a/c/1/0.bin": b"12",
            "g/a/c/1/0.bin.index": b"345",  # not of its size
            "g/a/c/9/9.bin": b"not of the grid",
            "g/a/notes.txt": b"",
            "g/refused/zarr.json": array(extensions=[{"name": "unknown"}]),
            "g/refused/c/0/0": b"1234",
            "g/broken/zarr.json": b"{",
        },
    )
    (folder / "g/linked").symlink_to("a")
    (folder / "out").symlink_to(os.path.dirname(folder))


def read_file(path: Path) -> bytes | int | None:
    """The bytes of a file of a mount, or the errno that reading it gives; None for ENOENT."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        return error.errno


def read_key(store: zarr.abc.store.Store, key: str) -> bytes | int | None:
    """The bytes under a key, or the errno that reading them gives; None if there are none."""
    try:
        found = sync(store.get(key, default_buffer_prototype()))
    except OSError as error:
        return error.errno
    return None if found is None else found.to_bytes()


def files_below(point: Path) -> set[str]:
    """Every file of a mount as a key, symlinks to folders followed."""
    found = set()
    for folder, names, files in os.walk(point, followlinks=True):
        names[:] = [name for name in names if os.access(os.path.join(folder, name), os.R_OK)]
        below = os.path.relpath(folder, point)
        found |= {os.path.normpath(os.path.join(below, name)) for name in files}
    return found


@pytest.mark.filterwarnings("ignore:Consolidated metadata is currently not part")
@pytest.mark.parametrize("write", [write_seeds, write_by_zarr_python, write_odds_and_ends])
def test_every_key_has_the_bytes_of_the_mounted_file(
    tmp_path: Path, mounted: Callable[..., Path], write: Callable[[Path], None]
) -> None:
    write(tmp_path / "data")
    assert_same(tmp_path / "data", mounted(tmp_path / "data", "--view", "plain"))


def test_every_key_of_the_demo_has_the_bytes_of_the_mounted_file(
    demo: Path, mounted: Callable[..., Path]
) -> None:
    assert_same(demo, mounted(demo, "--view", "plain"))


def assert_same(source: Path, point: Path) -> None:
    """The same keys, and under each the same bytes or errno."""
    store = zarrfuse.open_store(source)
    keys = set(sync(_collect_aiterator(store.list())))
    assert keys == files_below(point)
    assert len(keys) > 3
    for key in keys:
        assert read_key(store, key) == read_file(point / key), key
        assert sync(store.getsize(key)) == (point / key).stat().st_size, key
