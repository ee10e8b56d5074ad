"""Files that some replace, delete and rename while others open, read and list them.

On a disk whoever opens a file that others replace by renaming has one whole version of it, of the size that
it is told, and what is deleted is gone. Each test was a fault of this file system once.
"""

import json
import mmap
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from builders.documents import array, concat_parts, group
from builders.folders import write_keys
from builders.mounts import Daemon, drop_caches, wait_for
from builders.threads import meanwhile
from sampling import Sample

Server = Callable[..., Daemon]

THREE = concat_parts((".head", 16), "", (".index", 20))
VERSIONS, FEWER = 80, 25
"""How often something is replaced: with `--thorough`, and by default."""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """An array of chunks in one part, and one of chunks in three."""
    folder = tmp_path / "source"
    keys = {"zarr.json": group(), "one/zarr.json": array()}
    write_keys(folder, {**keys, "three/zarr.json": array(transformers=[THREE])})
    return folder


def text(version: int) -> bytes:
    """So many bytes that each version has another size, and tells which it is."""
    return b"%08d" % version * (5 + version * 37 % 1000)


def document(version: int) -> bytes:
    """A version of a `zarr.json`."""
    return array(attributes={"version": text(version).decode()})


def version_of(data: bytes) -> bytes:
    """The text in what was read. Fails for a document that is not whole."""
    if data.startswith(b"{"):
        return str(json.loads(data)["attributes"]["version"]).encode()
    return data


def read_whole(path: Path, flags: int) -> None:
    """Read a file, which must be one version of the size that is told."""
    fd = os.open(path, flags)
    try:
        told = os.fstat(fd).st_size
        data = b""
        while piece := os.pread(fd, 1 << 16, len(data)):
            data += piece
    finally:
        os.close(fd)
    assert told == len(data)
    found = version_of(data)
    assert found == text(int(found[:8]))


@pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_RDWR], ids=["read", "read and write"])
@pytest.mark.parametrize(
    ("view", "name"),
    [
        ("raw", "README"),
        ("chunks", "one/c/0/0"),
        ("chunks", "three/c/0/0"),
        ("plain", "three/c/0/0"),
        ("plain", "one/zarr.json"),
    ],
)
def test_a_reader_has_one_whole_version_of_what_is_renamed_over(
    view: str, name: str, flags: int, source: Path, served: Server, sample: Sample
) -> None:
    path = served(source, "--view", view, "--read-write").mountpoint / name
    content = document if name.endswith(".json") else text
    draft = path.with_name("draft")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content(0))
    with meanwhile(*[lambda: read_whole(path, flags)] * 2):
        for version in range(1, sample.count(VERSIONS, default=FEWER)):
            draft.write_bytes(content(version))
            draft.rename(path)
            assert version_of(path.read_bytes()) == text(version)


@pytest.mark.parametrize("view", ["raw", "chunks", "plain"])
def test_a_deleted_name_is_gone_although_it_is_listed_and_opened(
    view: str, source: Path, served: Server, sample: Sample
) -> None:
    folder = served(source, "--view", view, "--read-write").mountpoint / "three/c/0"
    folder.mkdir(parents=True)
    path = folder / "0"

    def open_it() -> None:
        try:
            fd = os.open(path, os.O_RDWR)
        except FileNotFoundError:
            return
        os.pwrite(fd, b"V" * 100, 0)  # as many bytes as a chunk has, if it is still empty
        os.close(fd)

    with meanwhile(lambda: os.listdir(folder), lambda: list(os.scandir(folder)), open_it):
        for version in range(sample.count(VERSIONS, default=FEWER)):
            with path.open("xb") as file:  # nobody else makes it
                file.write(text(version))
            path.unlink()
            assert not path.exists()


def test_what_is_deleted_while_it_is_closed_stays_deleted(
    source: Path, served: Server, sample: Sample
) -> None:
    path = served(source, "--read-write").mountpoint / "one/c/0/0"
    path.parent.mkdir(parents=True)
    for _ in range(sample.count(VERSIONS, default=FEWER)):
        path.write_bytes(b"four")
        fd = os.open(path, os.O_RDWR)
        os.pwrite(fd, b"FOUR", 0)
        closing = threading.Thread(target=os.close, args=(fd,))
        closing.start()
        path.unlink()
        closing.join()
        assert not (source / "one/c/0/0").exists()


@pytest.mark.parametrize("then", ["overwritten", "replaced", "deleted"])
def test_who_has_a_document_open_that_is_renamed_has_it_under_its_new_name(
    then: str, source: Path, served: Server
) -> None:
    folder = served(source, "--view", "plain", "--read-write").mountpoint / "one"
    expected = (folder / "zarr.json").read_bytes()
    backup, draft = folder / "zarr.json.bak", folder / "draft"
    with (folder / "zarr.json").open("rb") as opened:
        (folder / "zarr.json").rename(backup)
        if then == "overwritten":
            backup.write_bytes(expected := b"short")
        elif then == "replaced":
            draft.write_bytes(b"short")
            draft.rename(backup)
        else:
            backup.unlink()
        assert os.pread(opened.fileno(), 1 << 20, 0) == expected
        assert os.fstat(opened.fileno()).st_size == len(expected)


def test_no_file_is_taken_for_one_that_was_renamed_before(source: Path, served: Server) -> None:
    mount = served(source, "--view", "plain", "--read-write").mountpoint
    here, there = mount / "here", mount / "there"
    here.mkdir()
    there.mkdir()
    with (there / "held").open("w"):
        (here / "draft").write_bytes(array())
        (here / "draft").rename(here / "zarr.json")
        (here / "zarr.json").stat()
        fd = os.open(here / "zarr.json", os.O_PATH)
        os.stat(f"/proc/self/fd/{fd}")
        os.close(fd)
        (here / "zarr.json").rename(there / "old.json")
        drop_caches()
        for name in "abcdef":
            (here / name).write_text("this is")
        (there / "old.json").rename(there / "older.json")
        expected = (there / "older.json").read_bytes()
        for name in "abcdef":
            with (here / name).open("r+") as file:
                file.write(f"file {name}")
        assert (there / "older.json").read_bytes() == expected
        assert [(here / name).read_text()[:6] for name in "abcdef"] == [
            f"file {name}" for name in "abcdef"
        ]


def test_a_file_that_others_replace_in_the_store_is_another_one(
    source: Path, served: Server
) -> None:
    (source / "file").write_bytes(b"old")
    mount = served(source, "--view", "raw", "--read-write", "--cache-ttl", "0.1").mountpoint
    with (mount / "file").open("rb") as opened:
        (source / "draft").write_bytes(b"the new one")
        (source / "draft").rename(source / "file")
        wait_for(lambda: (mount / "file").stat().st_size == len(b"the new one"))
        assert (mount / "file").read_bytes() == b"the new one"
        assert opened.read() == b"old"


@pytest.mark.parametrize("array_name", ["one", "three"])
def test_a_folder_in_which_a_chunk_is_written_can_be_renamed(
    array_name: str, source: Path, served: Server
) -> None:
    mount = served(source, "--read-write").mountpoint
    folder, renamed = mount / array_name, mount / "two"
    (folder / "c/0").mkdir(parents=True)
    with (folder / "c/0/0").open("wb", buffering=0) as chunk:
        chunk.write(text(1))
        folder.rename(renamed)
        assert (renamed / "c/0/0").read_bytes() == text(1)
        chunk.write(text(2))
    assert (renamed / "c/0/0").read_bytes() == text(1) + text(2)
    assert not (source / array_name).exists()
    keys = ("0",) if array_name == "one" else ("0.head", "0", "0.index")
    stored = [(source / "two/c/0" / key).read_bytes() for key in keys]
    assert b"".join(stored) == text(1) + text(2)


_TELLS_OF_PUSHING = """
import pyfuse3
pyfuse3.notify_store = lambda inode, *_: open(PUSHED, "w").write(str(inode))
from zarrfuse.__main__ import main
main()
"""


def test_nothing_is_put_into_the_cache_of_a_file_that_anyone_has_open(
    source: Path, served: Server, tmp_path: Path
) -> None:
    # Who maps it may be waiting for a page; the kernel lets nobody else put something there.
    write_keys(source, {"one/c/0/1": text(1)})
    pushed = tmp_path / "pushed"
    telling = (sys.executable, "-c", _TELLS_OF_PUSHING.replace("PUSHED", repr(str(pushed))))
    daemon = served(source, "--view", "chunks", "--read-write", command=telling)
    chunk = daemon.mountpoint / "one/c/0/1"
    seen = os.open(chunk, os.O_PATH)
    inode = os.fstat(seen).st_ino
    writers = [os.open(f"/proc/self/fd/{seen}", os.O_RDWR) for _ in range(2)]
    for writer in reversed(writers):
        assert chunk.read_bytes() == text(1)
        assert not pushed.exists()
        os.close(writer)
    os.close(seen)
    wait_for(lambda: chunk.read_bytes() == text(1) and pushed.exists())
    assert int(pushed.read_text()) == inode


def test_what_a_writer_has_mapped_is_what_others_read(source: Path, served: Server) -> None:
    write_keys(source, {"one/c/0/0": text(0)})
    chunk = served(source, "--view", "chunks", "--read-write").mountpoint / "one/c/0/0"
    with chunk.open("r+b") as writer, mmap.mmap(writer.fileno(), 0) as mapped:
        mapped[:3] = b"new"
        assert chunk.read_bytes()[:8] == b"new00000"
        assert (source / "one/c/0/0").read_bytes() == text(0)
        with (
            chunk.open("rb") as reader,
            mmap.mmap(reader.fileno(), 0, prot=mmap.PROT_READ) as other,
        ):
            mapped[3:6] = b"est"
            assert other[:8] == b"newest00"
    assert (source / "one/c/0/0").read_bytes()[:8] == b"newest00"


def test_a_chunk_can_be_truncated_by_its_path_while_others_read_it(
    source: Path, served: Server
) -> None:
    write_keys(source, {"one/c/0/0": text(VERSIONS)})
    chunk = served(source, "--view", "chunks", "--read-write").mountpoint / "one/c/0/0"
    with meanwhile(*[chunk.read_bytes] * 2):
        for size in range(500, 500 - VERSIONS, -1):
            os.truncate(chunk, size)
    wait_for(lambda: chunk.stat().st_size == size)


def test_a_new_chunk_that_is_opened_again_when_it_is_closed_ends_once(
    source: Path, served: Server
) -> None:
    options = ("--view", "chunks", "--read-write", "--cache-ttl", "60")
    folder = served(source, *options).mountpoint / "one/c/0"
    folder.mkdir(parents=True)
    for number in range(50):
        chunk = folder / str(number)
        first = os.open(chunk, os.O_RDWR | os.O_CREAT)
        seen = os.open(f"/proc/self/fd/{first}", os.O_PATH)
        os.close(first)  # stored when the last handle is gone, which nobody waits for
        os.close(os.open(f"/proc/self/fd/{seen}", os.O_RDONLY))
        os.close(seen)
        wait_for(chunk.exists)
        with chunk.open("wb") as writer:
            chunk.stat()
            writer.write(b"written")
        assert chunk.stat().st_size == len(b"written")


def test_a_file_that_a_link_leads_to_is_one_file(source: Path, served: Server) -> None:
    (source / "file").write_bytes(b"")
    (source / "link").symlink_to("file")
    options = ("--view", "raw", "--read-write", "--cache-ttl", "0")
    link = served(source, *options).mountpoint / "link"
    writer = os.open(link, os.O_RDWR)
    os.pwrite(writer, b"first", 0)
    reader = os.open(link, os.O_RDONLY)
    assert os.pread(reader, 100, 0) == b"first"
    assert os.fstat(reader).st_ino == os.fstat(writer).st_ino
    os.pwrite(writer, b"F", 0)
    os.pwrite(writer, b", second", 5)
    assert os.fstat(reader).st_size == 13
    assert os.pread(reader, 100, 0) == b"First, second"
    os.close(reader)
    os.close(writer)


def test_what_changes_is_seen_while_somebody_has_the_folder_open(
    source: Path, served: Server
) -> None:
    options = ("--view", "raw", "--read-write", "--cache-ttl", "0.1")
    folder = served(source, *options).mountpoint / "one"
    opened = os.open(folder, os.O_RDONLY)
    (folder / "file").write_bytes(b"through the mount")
    assert (folder / "file").stat().st_size == 17
    (source / "one/file").write_bytes(b"by others")

    def listed() -> list[int]:
        return [entry.stat().st_size for entry in os.scandir(folder) if entry.name == "file"]

    wait_for(lambda: listed() == [9])
    assert (folder / "file").stat().st_size == 9
    os.close(opened)


def test_a_file_that_was_replaced_is_opened_to_write_by_the_handle_of_a_reader(
    source: Path, served: Server
) -> None:
    mount = served(source, "--view", "raw", "--read-write").mountpoint
    (mount / "name").write_bytes(b"old")
    (mount / "draft").write_bytes(b"the new one")
    reader = os.open(mount / "name", os.O_RDONLY)
    (mount / "draft").rename(mount / "name")
    writer = os.open(f"/proc/self/fd/{reader}", os.O_RDWR)
    os.pwrite(writer, b"O", 0)
    assert os.pread(reader, 100, 0) == b"Old"
    os.close(writer)
    os.close(reader)
    assert (mount / "name").read_bytes() == b"the new one"


@pytest.mark.parametrize("writing", [(), ("--read-write",)])
def test_who_opens_a_replaced_file_by_its_handle_has_the_same_file(
    source: Path, served: Server, writing: tuple[str, ...]
) -> None:
    (source / "name").write_bytes(b"old")
    mount = served(source, "--view", "raw", "--cache-ttl", "0.01", *writing).mountpoint
    reader = os.open(mount / "name", os.O_RDONLY)
    (source / "draft").write_bytes(b"the new one")
    (source / "draft").rename(source / "name")
    wait_for(lambda: (mount / "name").stat().st_size == 11)
    again = os.open(f"/proc/self/fd/{reader}", os.O_RDONLY)
    for opened in (reader, again):
        assert os.fstat(opened).st_size == 3
        assert os.pread(opened, 100, 0) == b"old"
        os.close(opened)
    assert (mount / "name").read_bytes() == b"the new one"
