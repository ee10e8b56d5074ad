"""tensorstore creates, resizes and writes sharded arrays in the `plain` view, from four processes.

It knows neither parts nor suffixes. It takes its own locks (`0.__lock`), writes other names and renames
them, and tells by inode and time whether somebody else has written a shard or `zarr.json` meanwhile:
then it does its change again. What it writes is read again after a remount, and what is stored is
compared byte for byte with what it writes into a plain folder.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders.documents import concat_parts, suffix_keys
from builders.mounts import zarrfuse
from write_by_tensorstore import GROWN, INNER, SHARD, SIDE, Task, metadata, opened, run, values

from zarrfuse.mounts import kernel_mounts

Mounted = Callable[..., Path]

PROCESSES = 4
ANSWER_WITHIN_S = 90
KEPT = ("attributes", "fill_value", "data_type", "storage_transformers")
"""Members that are stored as they were; tensorstore leaves out of others what is said by default."""
INDEX_BYTES = (SHARD // INNER) ** 2 * 16 + 4
SHARDS = [(row, column) for row in range(GROWN // SHARD) for column in range(SIDE // SHARD)]

STORED_AS: dict[str, tuple[str, tuple[tuple[str, int | None], ...]]] = {
    "as it is": ("", (("", None),)),
    "with a suffix": (".bin", (("", None),)),
    "in two parts": ("", (("", None), (".index", INDEX_BYTES))),
    "in three parts, with a suffix": (
        ".bin",
        ((".header", 100), ("", None), (".index", INDEX_BYTES)),
    ),
    "in parts, none under its own key": (".bin", ((".body", None), (".index", INDEX_BYTES))),
}
"""Suffix, and parts with their sizes."""


def write_empty(folder: Path, suffix: str, parts: tuple[tuple[str, int | None], ...]) -> None:
    """An array without chunks, stored with this suffix and in these parts."""
    folder.mkdir(parents=True)
    members: dict[str, Any] = {}
    if suffix:
        members["chunk_key_encoding"] = suffix_keys(suffix)
    if len(parts) > 1:
        written = [name if size is None else (name, size) for name, size in parts]
        members["storage_transformers"] = [concat_parts(*written)]
    members["attributes"] = {"kept": [1, 2.5]}
    (folder / "zarr.json").write_text(json.dumps(metadata(**members), indent=2))


def at_once(tasks: list[Task]) -> None:
    """Do all tasks at once, each in a process of its own."""
    with writers(tasks) as processes:
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        for process in processes:
            _, said = process.communicate(timeout=ANSWER_WITHIN_S)
            assert process.returncode == 0, said


@contextmanager
def writers(tasks: list[Task]) -> "Iterator[list[subprocess.Popen[str]]]":
    """A process for each task, all ended at the end."""
    script = Path(__file__).with_name("write_by_tensorstore.py")
    processes = [
        subprocess.Popen(
            [sys.executable, script, json.dumps(asdict(task))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for task in tasks
    ]
    try:
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def shards_of(which: int) -> list[tuple[int, int, int, int]]:
    """Every fourth shard, as boxes."""
    return [(row * SHARD, column * SHARD, SHARD, SHARD) for row, column in SHARDS[which::PROCESSES]]


def bands_of(which: int) -> list[tuple[int, int, int, int]]:
    """One row of inner chunks in every shard: each shard is written by all processes."""
    return [
        (row * SHARD + which * INNER, column * SHARD, INNER, SHARD)
        for row, column in SHARDS
        if row * SHARD < SIDE
    ]


def unmount(point: Path) -> None:
    """Unmount it; everything is stored when that returns."""
    if kernel_mounts.mount_at(str(point)) is not None:
        zarrfuse("unmount", point)


def stored_chunk(folder: Path, row: int, column: int, suffix: str, parts: Any) -> bytes:
    """A chunk as it is stored, its parts one behind the other. Fails for one of another size."""
    data = b""
    for part, size in parts:
        piece = (folder / "c" / str(row) / f"{column}{suffix}{part}").read_bytes()
        assert size in (None, len(piece)), part
        data += piece
    return data


def names_of(folder: Path) -> set[str]:
    """All files below a folder."""
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What tensorstore writes into a plain folder, shard by shard."""
    folder = tmp_path_factory.mktemp("reference") / "array"
    run(Task(str(folder), (GROWN, SIDE), shards_of(0), metadata(shape=[GROWN, SIDE])))
    for which in range(1, PROCESSES):
        run(Task(str(folder), (GROWN, SIDE), shards_of(which)))
    return folder


@pytest.mark.parametrize(("suffix", "parts"), STORED_AS.values(), ids=STORED_AS)
def test_four_processes_resize_an_array_and_write_shards(
    suffix: str, parts: Any, reference: Path, tmp_path: Path, mounted: Mounted
) -> None:
    source = tmp_path / "source"
    write_empty(source / "array", suffix, parts)
    before = json.loads((source / "array/zarr.json").read_bytes())
    mount = mounted(source, "--view", "plain", "--read-write")
    path = str(mount / "array")
    # Two make it longer, two wider: each must see what the others have done.
    ways = [(GROWN, None), (None, SIDE + SHARD)] * 2
    at_once([Task(path, way, shards_of(which)[:1]) for which, way in enumerate(ways)])
    assert opened(path, read=True).shape == (GROWN, SIDE + SHARD)
    opened(path, read=True, write=True).resize(exclusive_max=[GROWN, SIDE]).result()
    at_once([Task(path, (GROWN, None), shards_of(which)) for which in range(PROCESSES)])
    unmount(mount)

    after = json.loads((source / "array/zarr.json").read_bytes())
    assert after["shape"] == [GROWN, SIDE]
    for name in (*KEPT, "chunk_key_encoding") if suffix else KEPT:
        assert after.get(name) == before.get(name), name
    expected = {"zarr.json"}
    for row, column in SHARDS:
        stored = stored_chunk(source / "array", row, column, suffix, parts)
        assert stored == (reference / "c" / str(row) / str(column)).read_bytes()
        expected |= {f"c/{row}/{column}{suffix}{part}" for part, _ in parts}
    assert {name for name in names_of(source / "array") if "__lock" not in name} == expected

    again = mounted(source, "--view", "plain")
    np.testing.assert_array_equal(
        opened(str(again / "array"), read=True).read().result(), values(GROWN, SIDE)
    )


@pytest.mark.parametrize(("suffix", "parts"), STORED_AS.values(), ids=STORED_AS)
def test_four_processes_write_inner_chunks_of_the_same_shards(
    suffix: str, parts: Any, tmp_path: Path, mounted: Mounted
) -> None:
    source = tmp_path / "source"
    write_empty(source / "array", suffix, parts)
    mount = mounted(source, "--view", "plain", "--read-write")
    path = str(mount / "array")
    at_once([Task(path, (SIDE, SIDE), bands_of(which)) for which in range(PROCESSES)])
    pixels = values(GROWN, SIDE)[:SIDE]
    np.testing.assert_array_equal(opened(path, read=True).read().result(), pixels)
    unmount(mount)

    for row in range(SIDE // SHARD):
        for column in range(SIDE // SHARD):
            stored_chunk(source / "array", row, column, suffix, parts)
    again = mounted(source, "--view", "plain")
    np.testing.assert_array_equal(opened(str(again / "array"), read=True).read().result(), pixels)


def test_four_processes_create_one_array(reference: Path, tmp_path: Path, mounted: Mounted) -> None:
    source = tmp_path / "source"
    source.mkdir()
    mount = mounted(source, "--view", "plain", "--read-write")
    path = str(mount / "new/array")
    created = metadata(shape=[GROWN, SIDE])
    at_once([Task(path, (GROWN, SIDE), shards_of(which), created) for which in range(PROCESSES)])
    unmount(mount)

    for name in names_of(reference):
        assert (source / "new/array" / name).read_bytes() == (reference / name).read_bytes(), name
    again = mounted(source, "--view", "plain")
    np.testing.assert_array_equal(
        opened(str(again / "new/array"), read=True).read().result(), values(GROWN, SIDE)
    )


def test_four_processes_write_an_array_each(
    reference: Path, tmp_path: Path, mounted: Mounted
) -> None:
    source = tmp_path / "source"
    stored_as = list(STORED_AS.values())[-PROCESSES:]
    for which, (suffix, parts) in enumerate(stored_as):
        write_empty(source / str(which), suffix, parts)
    mount = mounted(source, "--view", "plain", "--read-write")
    boxes = [box for which in range(PROCESSES) for box in shards_of(which)]
    at_once([Task(str(mount / str(which)), (GROWN, SIDE), boxes) for which in range(PROCESSES)])
    unmount(mount)

    again = mounted(source, "--view", "plain")
    for which, (suffix, parts) in enumerate(stored_as):
        for row, column in SHARDS:
            stored = stored_chunk(source / str(which), row, column, suffix, parts)
            assert stored == (reference / "c" / str(row) / str(column)).read_bytes()
        np.testing.assert_array_equal(
            opened(str(again / str(which)), read=True).read().result(), values(GROWN, SIDE)
        )
