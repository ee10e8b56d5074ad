"""Files and folders that some rename while others work with them.

On a disk a file stays the file that it is, whatever it is called. Each test was a fault of this file
system once.
"""

import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from builders.documents import array, group
from builders.folders import write_keys
from builders.mounts import Daemon, wait_for
from builders.threads import meanwhile

Server = Callable[..., Daemon]

ROUNDS = 200


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """An array, and folders."""
    folder = tmp_path / "source"
    write_keys(folder, {"zarr.json": group(), "one/zarr.json": array(), "a/b/file": b"text"})
    return folder


@pytest.mark.parametrize("flags", [os.O_WRONLY | os.O_TRUNC, os.O_RDWR])
def test_who_writes_what_was_replaced_and_renamed_writes_no_other_file(
    source: Path, served: Server, flags: int
) -> None:
    # The kernel goes on with the number of the first file, which stood for the old name.
    daemon = served(source, "--view", "raw", "--read-write", "--cache-ttl", "60")
    (source / "one/a").write_bytes(b"first")
    old, new = daemon.mountpoint / "one/a", daemon.mountpoint / "one/b"
    old.stat()
    (source / "one/other").write_bytes(b"second")
    (source / "one/other").rename(source / "one/a")
    old.chmod(0o644)  # tells the mount, not the kernel
    old.rename(new)
    old.write_bytes(b"third")
    with open(os.open(new, flags), "wb") as file:
        file.write(b"written")
    assert old.read_bytes() == b"third"
    assert new.read_bytes()[:7] == b"written"


@pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_RDWR], ids=["read", "read and write"])
def test_a_file_is_opened_wherever_it_is_just_renamed_to(
    source: Path, served: Server, flags: int
) -> None:
    daemon = served(source, "--view", "raw", "--read-write")
    folders = [daemon.mountpoint / name for name in ("first", "second", "third")]
    for folder in folders:
        folder.mkdir()
    here, there = (folder / "file" for folder in folders[1:])
    (folders[0] / "file").write_bytes(b"text")
    (folders[0] / "file").rename(here)  # keeps its number, which was made in the first folder

    def opened() -> None:
        with suppress(FileNotFoundError):
            os.close(os.open(here, flags))

    with meanwhile(opened, opened):
        for _ in range(ROUNDS):
            here.rename(there)
            there.rename(here)
    status = daemon.status()
    assert status["open_files"] == 0
    wait_for(lambda: not held_by(daemon, "/file"))


def test_a_file_is_found_in_a_folder_while_one_above_is_renamed(
    source: Path, served: Server
) -> None:
    daemon = served(source, "--view", "raw", "--read-write", "--cache-ttl", "0")
    above, renamed = daemon.mountpoint / "a", daemon.mountpoint / "c"
    folder = os.open(above / "b", os.O_RDONLY)

    def found() -> None:
        os.stat("file", dir_fd=folder)
        os.close(os.open("file", os.O_RDONLY, dir_fd=folder))
        os.close(os.open("new", os.O_WRONLY | os.O_CREAT, dir_fd=folder))
        with pytest.raises(FileNotFoundError):
            os.stat("nothing", dir_fd=folder)

    with meanwhile(found):
        for _ in range(ROUNDS):
            above.rename(renamed)
            renamed.rename(above)
    os.close(folder)


def held_by(daemon: Daemon, name: str) -> list[Path]:
    """The files of a name that a daemon has open."""
    descriptors = Path(f"/proc/{daemon.process.pid}/fd").iterdir()
    links = [path.readlink() for path in descriptors if path.is_symlink()]
    return [link for link in links if str(link).endswith(name)]


_SLOW = """
import time
from zarrfuse.views.raw.view import RawFolder
for name in ("lookup", "open"):
    def slow(self, *args, wait=True, at_once=getattr(RawFolder, name)):
        if not wait:
            raise BlockingIOError
        found = at_once(self, *args)
        time.sleep(0.003)
        return found
    setattr(RawFolder, name, slow)
from zarrfuse.__main__ import main
main()
"""


def test_a_renamed_file_keeps_its_number_while_others_look_its_name_up(
    source: Path, served: Server
) -> None:
    options = ("--view", "raw", "--read-write", "--cache-ttl", "0.01")
    mount = served(source, *options, command=(sys.executable, "-c", _SLOW)).mountpoint
    draft, name = mount / "draft", mount / "name"
    name.write_bytes(b"text")
    with meanwhile(name.stat, name.read_bytes):
        for _ in range(ROUNDS // 4):
            writer = os.open(draft, os.O_RDWR | os.O_CREAT)
            os.write(writer, b"new")
            draft.rename(name)
            reader = os.open(name, os.O_RDONLY)
            inodes = {os.fstat(writer).st_ino, os.fstat(reader).st_ino, name.stat().st_ino}
            assert len(inodes) == 1
            os.pwrite(writer, b"NEW", 0)
            assert os.pread(reader, 3, 0) == b"NEW"
            os.close(writer)
            os.close(reader)


_SLOW_RENAME = """
import time
from zarrfuse.views.raw.view import RawFolder
def slow(self, *args, at_once=RawFolder.rename, **more):
    done = at_once(self, *args, **more)
    time.sleep(3)
    return done
RawFolder.rename = slow
from zarrfuse.__main__ import main
main()
"""


def test_nobody_waits_for_a_folder_that_is_renamed_elsewhere(source: Path, served: Server) -> None:
    command = (sys.executable, "-c", _SLOW_RENAME)
    mount = served(source, "--view", "raw", "--read-write", command=command).mountpoint
    (mount / "d").mkdir()
    with ThreadPoolExecutor(1) as another:
        renaming = another.submit((mount / "a").rename, mount / "b")
        wait_for((source / "b").exists)
        with pytest.raises(FileNotFoundError):
            (mount / "d/nothing").stat()
        (mount / "d/new").write_bytes(b"text")
        assert (mount / "d/new").read_bytes() == b"text"
        assert not renaming.done()
    assert (mount / "b/b/file").read_bytes() == b"text"


def test_a_folder_replaces_none_in_which_a_chunk_is_written(source: Path, served: Server) -> None:
    write_keys(source, {"one/c/1/0": b"stored"})
    mount = served(source, "--view", "chunks", "--read-write").mountpoint
    (mount / "one/c/0").mkdir()
    with (mount / "one/c/0/0").open("wb") as writer:
        writer.write(b"new")
        with pytest.raises(OSError, match="Directory not empty"):
            (mount / "one/c/1").rename(mount / "one/c/0")
    assert (mount / "one/c/1/0").read_bytes() == b"stored"
    assert (mount / "one/c/0/0").read_bytes() == b"new"
