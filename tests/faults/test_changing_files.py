"""Files and folders that change while they are open or listed: old bytes, new bytes, or an error."""

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from builders.documents import array, concat_parts
from builders.folders import write_files
from builders.mounts import Daemon, serving, wait_for
from daemons import errno_when

LARGE = 1 << 20
OLD = bytes(range(256)) * (LARGE // 256)
NEW = OLD[::-1]
STALE = (errno.ESTALE, errno.EIO)
PARTS = [concat_parts(".head", "", ".tail")]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """An array in one part, and one in three."""
    folder = tmp_path / "source"
    write_files(folder, {"a/zarr.json": array((8, 8)), "a/c/0/0": OLD, "fine": b"fine"})
    document = array((8, 8), transformers=PARTS)
    write_files(folder, {"p/zarr.json": document})
    write_files(folder, {"p/c/0/0.head": b"head", "p/c/0/0": OLD, "p/c/0/0.tail": b"tail"})
    return folder


@contextmanager
def opened(path: Path) -> Iterator[int]:
    """A descriptor."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def assert_up(daemon: Daemon) -> None:
    """Other files are read, and nothing was a fault."""
    assert (daemon.mountpoint / "fine").read_bytes() == b"fine"
    assert "Traceback" not in daemon.text()


def rest_of(descriptor: int, offset: int) -> bytes | int:
    """The bytes from an offset on, as a program reads them to the end; or the errno."""
    found = b""
    try:
        while data := os.pread(descriptor, 128 << 10, offset + len(found)):
            found += data
    except OSError as error:
        return error.errno or -1
    return found


def is_whole_or_stale(got: bytes | int, whole: bytes) -> bool:
    """Not for `assert a == b`: to show how a mebibyte differs takes seconds."""
    return got in STALE if isinstance(got, int) else got == whole


def replace(path: Path, data: bytes) -> None:
    """Put another file in its place."""
    other = path.with_name("other")
    other.write_bytes(data)
    other.rename(path)


@pytest.mark.parametrize("array_name", ["a", "p"])
@pytest.mark.parametrize("ttl", ["0", "600"])
def test_a_file_truncated_while_open_is_stale_behind_its_end(
    tmp_path: Path, source: Path, ttl: str, array_name: str
) -> None:
    """Or ends earlier, once the kernel knows that."""
    with serving(tmp_path, source, "--cache-ttl", ttl) as daemon:
        with opened(daemon.mountpoint / array_name / "c/0/0") as descriptor:
            os.truncate(source / array_name / "c/0/0", 5000)
            told = rest_of(descriptor, 900_000)
            assert told in STALE or (ttl == "0" and told == b"")
        assert_up(daemon)


@pytest.mark.parametrize("array_name", ["a", "p"])
@pytest.mark.parametrize("ttl", ["0", "600"])
@pytest.mark.parametrize("size", [LARGE, 5000, 2 * LARGE])
def test_a_file_replaced_while_open_gives_its_old_bytes(
    tmp_path: Path, source: Path, ttl: str, array_name: str, size: int
) -> None:
    whole = OLD if array_name == "a" else b"head" + OLD + b"tail"
    with serving(tmp_path, source, "--cache-ttl", ttl) as daemon:
        with opened(daemon.mountpoint / array_name / "c/0/0") as descriptor:
            assert os.pread(descriptor, 4096, 0) == whole[:4096]
            replace(source / array_name / "c/0/0", (NEW * 2)[:size])
            got = rest_of(descriptor, 8192)
            assert is_whole_or_stale(got, whole[8192:])
        assert_up(daemon)


@pytest.mark.parametrize("ttl", ["0", "600"])
def test_who_opens_a_replaced_file_does_not_change_what_others_read(
    tmp_path: Path, source: Path, ttl: str
) -> None:
    """He shares it for as long as the kernel does not look the name up again."""
    with serving(tmp_path, source, "--cache-ttl", ttl) as daemon:
        path = daemon.mountpoint / "a/c/0/0"
        with opened(path) as first:
            assert os.pread(first, 4096, 0) == OLD[:4096]
            replace(source / "a/c/0/0", NEW)
            with opened(path) as second:
                assert is_whole_or_stale(rest_of(second, 0), NEW if ttl == "0" else OLD)
                got = rest_of(first, 4096)
                assert is_whole_or_stale(got, OLD[4096:])
        assert_up(daemon)


@pytest.mark.parametrize("array_name", ["a", "p"])
@pytest.mark.parametrize("ttl", ["0", "600"])
def test_a_file_deleted_while_open_stays_readable(
    tmp_path: Path, source: Path, ttl: str, array_name: str
) -> None:
    whole = OLD if array_name == "a" else b"head" + OLD + b"tail"
    with serving(tmp_path, source, "--cache-ttl", ttl) as daemon:
        with opened(daemon.mountpoint / array_name / "c/0/0") as descriptor:
            for path in (source / array_name / "c/0").iterdir():
                path.unlink()
            whole_again = rest_of(descriptor, 0) == whole
            assert whole_again
            assert os.fstat(descriptor).st_size == len(whole)
        if ttl == "0":
            assert errno_when((daemon.mountpoint / array_name / "c/0/0").stat) == errno.ENOENT
        assert_up(daemon)


@pytest.mark.parametrize("ttl", ["0", "600"])
@pytest.mark.parametrize("size", [100, 2 * LARGE])
def test_a_file_that_changes_between_listing_and_opening_is_whole(
    tmp_path: Path, source: Path, ttl: str, size: int
) -> None:
    """The program knows the old size; it gets all of the new bytes, or an error."""
    with serving(tmp_path, source, "--cache-ttl", ttl) as daemon:
        path = daemon.mountpoint / "a/c/0/0"
        assert path.stat().st_size == LARGE
        replace(source / "a/c/0/0", (NEW * 2)[:size])
        try:
            with opened(path) as descriptor:
                got = rest_of(descriptor, 0)
                assert is_whole_or_stale(got, (NEW * 2)[:size])
        except OSError as error:
            assert error.errno in STALE
        assert_up(daemon)


@pytest.mark.parametrize("ttl", ["0", "600"])
def test_a_part_that_changes_between_opening_and_reading_never_shifts_the_bytes(
    tmp_path: Path, source: Path, ttl: str
) -> None:
    whole = b"head" + OLD + b"tail"
    with serving(tmp_path, source, "--cache-ttl", ttl) as daemon:
        with opened(daemon.mountpoint / "p/c/0/0") as descriptor:
            replace(source / "p/c/0/0.head", b"another head")
            got = rest_of(descriptor, 0)
            assert is_whole_or_stale(got, whole)
        assert_up(daemon)


def test_a_part_of_many_that_changes_is_stale(tmp_path: Path) -> None:
    """Chunks of many parts open them when they are read."""
    source = tmp_path / "source"
    count = 40
    parts = [concat_parts(*(f".{n:02}" for n in range(count)))]
    write_files(source, {"m/zarr.json": array((8, 8), transformers=parts)})
    write_files(source, {f"m/c/0/0.{n:02}": b"%010d" % n * 1000 for n in range(count)})
    write_files(source, {"fine": b"fine"})
    with serving(tmp_path, source, "--cache-ttl", "600") as daemon:
        path = daemon.mountpoint / "m/c/0/0"
        with opened(path) as descriptor:
            (source / "m/c/0/0.20").write_bytes(b"short")
            assert errno_when(lambda: os.pread(descriptor, 4096, 205_000)) in STALE
        with opened(path) as descriptor:
            (source / "m/c/0/0.39").unlink()
            code = errno_when(lambda: os.pread(descriptor, 4096, 395_000))
            assert code in (0, errno.ENOENT, *STALE)  # 0: from the kernel's page cache
            assert os.pread(descriptor, 10, 0) == b"0" * 10
        assert_up(daemon)


def test_a_missing_part_that_comes_makes_the_chunk_whole(tmp_path: Path, source: Path) -> None:
    tail = source / "p/c/0/0.tail"
    tail.rename(tmp_path / "tail")
    with serving(tmp_path, source, "--cache-ttl", "0") as daemon:
        path = daemon.mountpoint / "p/c/0/0"
        assert errno_when(path.read_bytes) == errno.EIO
        assert errno_when(path.read_bytes) == errno.EIO
        assert daemon.text().count(".tail` is missing") == 1
        (tmp_path / "tail").rename(tail)
        assert path.read_bytes() == b"head" + OLD + b"tail"
        assert_up(daemon)


def test_a_folder_deleted_while_listed_lists_what_it_had(tmp_path: Path, source: Path) -> None:
    write_files(source, {f"many/{n:05}": b"" for n in range(3000)})
    with serving(tmp_path, source, "--cache-ttl", "0") as daemon:
        with os.scandir(daemon.mountpoint / "many") as entries:
            found = [next(entries).name]
            shutil.rmtree(source / "many")
            found += [entry.name for entry in entries]
        assert len(found) == len(set(found)) == 3000
        assert errno_when(lambda: os.listdir(daemon.mountpoint / "many")) == errno.ENOENT
        assert "many" not in os.listdir(daemon.mountpoint)
        assert_up(daemon)


def test_names_that_come_and_go_while_listed_are_listed_once(tmp_path: Path, source: Path) -> None:
    write_files(source, {f"many/{n:05}": b"" for n in range(9000)})
    with serving(tmp_path, source, "--cache-ttl", "0") as daemon:
        folder = daemon.mountpoint / "many"
        with os.scandir(folder) as entries:
            found = [next(entries).name]
            for n in range(0, 9000, 2):
                (source / f"many/{n:05}").unlink()
                (source / f"many/new{n:05}").touch()
            assert len(os.listdir(folder)) == 9000
            found += [entry.name for entry in entries]
        assert len(found) == len(set(found))
        assert {f"{n:05}" for n in range(1, 9000, 2)} <= set(found)
        assert_up(daemon)


def test_a_source_that_is_removed_leaves_an_answering_mount(tmp_path: Path, source: Path) -> None:
    with serving(tmp_path, source, "--cache-ttl", "0") as daemon:
        with opened(daemon.mountpoint / "a/c/0/0") as descriptor:
            shutil.rmtree(source)
            assert errno_when((daemon.mountpoint / "fine").stat) == errno.ENOENT
            errno_when(lambda: os.listdir(daemon.mountpoint))
            assert os.pread(descriptor, 4096, 0) == OLD[:4096]
        assert daemon.is_up()
        assert "Traceback" not in daemon.text()
        write_files(source, {"again": b"again"})  # another folder of that name
        assert errno_when((daemon.mountpoint / "again").stat) in (0, errno.ENOENT)
        assert daemon.is_up()


def test_a_file_that_becomes_a_folder_and_back_is_followed(tmp_path: Path, source: Path) -> None:
    with serving(tmp_path, source, "--cache-ttl", "0") as daemon:
        path = daemon.mountpoint / "fine"
        for _ in range(3):
            assert path.read_bytes() == b"fine"
            (source / "fine").unlink()
            (source / "fine").mkdir()
            (source / "fine/inside").write_bytes(b"inside")
            wait_for(path.is_dir, 5)
            assert os.listdir(path) == ["inside"]
            assert (path / "inside").read_bytes() == b"inside"
            shutil.rmtree(source / "fine")
            (source / "fine").write_bytes(b"fine")
            wait_for(path.is_file, 5)
        assert_up(daemon)


def test_a_file_that_may_no_longer_be_read_keeps_what_is_open(tmp_path: Path, source: Path) -> None:
    with serving(tmp_path, source, "--cache-ttl", "0") as daemon:
        with opened(daemon.mountpoint / "a/c/0/0") as descriptor:
            (source / "a/c/0/0").chmod(0)
            unchanged = rest_of(descriptor, 0) == OLD
            assert unchanged
        assert errno_when((daemon.mountpoint / "a/c/0/0").read_bytes) in (0, errno.EACCES)
        assert_up(daemon)


def test_a_growing_file_is_read_to_the_size_it_had(tmp_path: Path, source: Path) -> None:
    with serving(tmp_path, source, "--cache-ttl", "0") as daemon:
        with opened(daemon.mountpoint / "a/c/0/0") as descriptor:
            with (source / "a/c/0/0").open("ab") as file:
                file.write(NEW)
            got = rest_of(descriptor, 0)
            assert isinstance(got, bytes)
            assert got in (OLD, OLD + NEW)
        assert (daemon.mountpoint / "a/c/0/0").read_bytes() == OLD + NEW
        assert_up(daemon)


def test_a_file_that_changes_again_while_its_size_is_kept_is_whole(
    tmp_path: Path, source: Path
) -> None:
    with serving(tmp_path, source, "--cache-ttl", "600") as daemon:
        path = daemon.mountpoint / "a/c/0/0"
        for size in (LARGE, 2 * LARGE, 3 * LARGE, 1000):
            assert path.stat().st_size > 0  # what the kernel keeps, of the time before
            replace(source / "a/c/0/0", (NEW * 3)[:size])
            is_whole = path.read_bytes() == (NEW * 3)[:size]
            assert is_whole, size
        assert_up(daemon)
