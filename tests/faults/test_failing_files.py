"""A store on a file system that fails: each chunk stays whole, and the mount lives."""

import errno
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from builders.documents import array, concat_parts
from builders.folders import write_files
from builders.mounts import ENVIRONMENT, clear, serving, wait_for
from daemons import errno_when
from sampling import is_thorough

from zarrfuse.mounts import kernel_mounts

THOROUGH = is_thorough()
SIZE = 3000
PARTS = [concat_parts((".a", 1000), "")]
STORED = {"whole": ("c/0",), "parts": ("c/0.a", "c/0")}
"""By array: the keys of a chunk."""
WRITES = (
    ["open", "create", "write", "flush"],
    ["fsync", "fsyncdir"],
    ["rename", "link", "unlink"],
    ["lookup", "getattr", "setattr", "mkdir", "readdir", "opendir"],
    ["open", "create", "read", "write", "flush", "fsync", "fsyncdir", "rename", "unlink", "lookup"],
)


class FailingFolder:
    """A folder on a file system that fails while it is told to; `stored` is where its files are."""

    def __init__(self, stored: Path, point: Path, faults: Path) -> None:
        self.stored, self.point, self._faults = stored, point, faults

    @contextmanager
    def failing(self, calls: list[str], every: int, code: int = errno.EIO) -> Iterator[None]:
        """Every so manieth of these calls fails, until the end of the block."""
        new = self._faults.with_suffix(".new")
        new.write_text(json.dumps({"calls": calls, "every": every, "errno": code}))
        new.rename(self._faults)
        try:
            yield
        finally:
            self._faults.unlink()


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[FailingFolder]:
    """A folder with an array whose chunk is stored whole, and one whose chunk is in two parts."""
    stored, point = tmp_path / "stored", tmp_path / "failing"
    point.mkdir()
    for name, keys in STORED.items():
        members = {"storage_transformers": PARTS} if len(keys) > 1 else {}
        document = array([SIZE], [SIZE], **members)
        write_files(stored, {f"{name}/zarr.json": document})
        sizes = [SIZE] if len(keys) == 1 else [1000, SIZE - 1000]
        write_files(stored, {f"{name}/{key}": bytes(n) for key, n in zip(keys, sizes, strict=True)})
    program = Path(__file__).with_name("serve_failing_files.py")
    command = [sys.executable, str(program), str(stored), str(point), str(tmp_path / "faults")]
    process = subprocess.Popen(command, env=ENVIRONMENT)
    try:
        wait_for(lambda: kernel_mounts.mount_at(str(point)) or process.poll() is not None)
        yield FailingFolder(stored, point, tmp_path / "faults")
    finally:
        clear(point)
        process.kill()
        process.wait(10)


def version_in(data: bytes) -> int:
    """The version of a whole chunk."""
    assert len(data) == SIZE
    assert len(set(data)) == 1, f"a mix of the versions {sorted(set(data))}"
    return data[0]


@pytest.mark.parametrize("calls", WRITES, ids="-".join)
@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC] if THOROUGH else [errno.EIO])
def test_chunks_stay_whole_on_a_file_system_that_fails(
    tmp_path: Path, folder: FailingFolder, calls: list[str], code: int
):
    with serving(tmp_path, folder.point, "--read-write", "--cache-ttl", "0") as daemon:
        number = 0
        for every in range(1, 30 if THOROUGH else 4):
            # Not as they are stored: what a failed rename has left is in a journal until the next commit.
            chunks = {name: daemon.mountpoint / name / "c/0" for name in STORED}
            may_be = {name: {version_in(chunk.read_bytes())} for name, chunk in chunks.items()}
            with folder.failing(calls, every, code):
                for _ in range(3):
                    number += 1
                    for name, chunk in chunks.items():
                        told = errno_when(lambda chunk=chunk, n=number: overwrite(chunk, n))
                        may_be[name] = {number} if told == 0 else {*may_be[name], number}
            assert daemon.is_up()
            for name, chunk in chunks.items():
                assert version_in(chunk.read_bytes()) in may_be[name], (name, every)
        number += 1
        for name in STORED:
            overwrite(daemon.mountpoint / name / "c/0", number)
            assert version_in((daemon.mountpoint / name / "c/0").read_bytes()) == number
        assert "Traceback" not in daemon.text()
    for name in STORED:
        assert version_in(stored_bytes(folder, name)) == number
    left = (folder.stored / ".zarrfuse").rglob("*")
    assert not [path for path in left if path.is_file()]


def stored_bytes(folder: FailingFolder, name: str) -> bytes:
    """The bytes of a chunk as they are stored."""
    return b"".join((folder.stored / name / key).read_bytes() for key in STORED[name])


def overwrite(chunk: Path, number: int) -> None:
    """Write a whole version of a chunk, and close it."""
    fd = os.open(chunk, os.O_RDWR)
    try:
        os.pwrite(fd, bytes([number]) * SIZE, 0)
    except BaseException:
        os.close(fd)
        raise
    os.close(fd)
