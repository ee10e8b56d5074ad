"""After SIGHUP a mount shows what a new mount of the source shows, whatever it had cached."""

import json
import os
import shutil
import signal
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
import zarr
from builders.documents import array, concat_parts, group, suffix_keys
from builders.folders import files_below, write_files
from builders.mounts import Daemon, mounting, wait_for
from builders.object_server import ObjectServer, TestBucket
from remote_dataset import Source, serving_source, write_dataset

Served = Callable[..., Daemon]
Tree = dict[str, object]
CASES = [
    ("folder", "raw"),
    ("folder", "all"),
    ("s3", "all"),
    ("http-none", "all"),
    ("http-html", "all"),
]


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    """A dataset, files of no node, and folders."""
    folder = tmp_path / "served" / "data"
    write_dataset(folder)
    write_files(
        folder,
        {
            "file": b"a file",
            "file-to-folder": b"1",
            "folder-to-file/name": b"2",
            "gone/zarr.json": group(),
            "gone/name": b"3",
        },
    )
    return folder


def change(folder: Path) -> None:
    """Change every kind of thing; what stays are the names of some of them."""
    plain = zarr.create_array(
        folder / "plain", shape=(40, 60), chunks=(20, 20), dtype="int32", overwrite=True
    )
    plain[...] = np.arange(2400).reshape(40, 60)
    zarr.open_array(folder / "sharded")[3, 4] = 77
    zarr.open_array(folder / "sparse")[20:, 20:] = 3  # a chunk that was absent
    zarr.open_array(folder / "old" / "v2")[...] = 4
    zarr.open_group(folder / "p").attrs["renamed"] = True
    shutil.rmtree(folder / "suffix" / "c")
    shutil.rmtree(folder / "gone")
    shutil.rmtree(folder / "folder-to-file")
    (folder / "file-to-folder").unlink()
    write_files(
        folder,
        {
            "parts/zarr.json": array(transformers=[concat_parts("", (".sum", 4))]),
            "parts/c/0/1.sum": b"badc",
            "parts/c/1/0.crc32c": b"dcba",
            "suffix/zarr.json": array(keys=suffix_keys(".bin")),
            "suffix/c/0/1.bin": b"abcd",
            "file": b"A FILE",  # as long as before
            "file-to-folder/name": b"1",
            "folder-to-file": b"2",
            "new/zarr.json": array(),
            "new/c/0/0": b"efgh",
        },
    )
    (folder / "scalar" / "c").unlink()
    root = json.loads((folder / "zarr.json").read_bytes())
    del root["consolidated_metadata"]
    root["attributes"] = {"changed": True}
    (folder / "zarr.json").write_text(json.dumps(root))


def look(point: Path, names: tuple[str, ...] = ()) -> Tree:
    """All that programs see: sizes, bytes or errors of files, folders, and which `names` there are."""
    tree: Tree = {}
    for path, folders, files in os.walk(point):
        here = Path(path)
        tree.update((str((here / name).relative_to(point)), None) for name in folders)
        for name in files:
            file = here / name
            try:
                seen: object = file.stat().st_size, file.read_bytes()
            except OSError as error:
                seen = error.strerror
            tree[str(file.relative_to(point))] = seen
    for name in names:
        assert (point / name).exists() == (name in tree), name
    return tree


def reload(daemon: Daemon) -> None:
    """Send SIGHUP and wait for what it does."""
    reloads = daemon.text().count("SIGHUP: reloaded")
    daemon.process.send_signal(signal.SIGHUP)
    wait_for(lambda: daemon.text().count("SIGHUP: reloaded") > reloads)


def put_into_bucket(url: str, folder: Path, server: ObjectServer) -> None:
    """Make the bucket of `serving_source` hold what the folder holds."""
    bucket = TestBucket(server, url.removeprefix("s3://").partition("/")[0])
    files = {f"data/{key}": data for key, data in files_below(folder).items()}
    for key in set(bucket.all_keys()) - files.keys():
        bucket.delete(key)
    for key, data in files.items():
        bucket.put(key, data)


@pytest.mark.parametrize("kind, view", CASES)
def test_a_reload_shows_all_that_is_new(
    kind: str,
    view: str,
    dataset: Path,
    served: Served,
    object_server: ObjectServer,
    tmp_path: Path,
) -> None:
    (tmp_path / "new").mkdir()
    (tmp_path / "own").mkdir()
    with ExitStack() as stack:
        source = Source(str(dataset))
        options = ["--view", view, "--cache-ttl", "inf"]
        if kind != "folder":
            source = stack.enter_context(
                serving_source(kind, dataset, tmp_path / "own", object_server)
            )
            options += ["--cache-dir", str(tmp_path / "cache"), *source.options]
        daemon = served(source.url, *options)
        look(daemon.mountpoint)
        reload(daemon)
        before = look(daemon.mountpoint)
        views = ("chunks/", "plain/", "images/") if view == "all" else ("",)
        absent = tuple(f"{each}{name}/zarr.json" for each in views for name in ("new", "newer"))
        look(daemon.mountpoint, absent)
        change(dataset)
        if kind == "s3":
            put_into_bucket(source.url, dataset, object_server)
        with mounting(source.url, tmp_path / "new", "--view", view, *source.options) as point:
            expected = look(point)
        assert expected != before
        assert look(daemon.mountpoint) != expected
        reload(daemon)
        wait_for(lambda: look(daemon.mountpoint) == expected)
        assert look(daemon.mountpoint, absent) == expected
