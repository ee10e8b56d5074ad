"""What a program is told whose file cannot be written because the disk is full."""

import errno
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from builders.documents import array
from builders.folders import write_keys

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a small disk")

Mounter = Callable[..., Path]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 64 KiB."""
    point = tmp_path / "disk"
    point.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", point], check=True)
    yield point
    subprocess.run(["umount", "-l", point], check=True)


def fill(disk: Path) -> None:
    """Leave no byte free."""
    with (disk / "filler").open("wb", buffering=0) as filler:
        while True:
            try:
                filler.write(bytes(4096))
            except OSError as error:
                assert error.errno == errno.ENOSPC
                return


@pytest.mark.parametrize("is_new", [True, False], ids=["new", "stored"])
@pytest.mark.parametrize("is_spool", [True, False], ids=["full spool", "full store"])
def test_close_after_a_first_write_that_failed_is_an_error(
    disk: Path, tmp_path: Path, mounted: Mounter, is_spool: bool, is_new: bool
) -> None:
    store = tmp_path / "store" if is_spool else disk
    write_keys(store, {"zarr.json": array(), "c/0/0": b"abcd"})
    options = ["--spool-dir", str(disk)] if is_spool else []
    mountpoint = mounted(store, "--read-write", *options)
    fill(disk)
    fd = os.open(mountpoint / "c/0" / ("1" if is_new else "0"), os.O_RDWR | os.O_CREAT)
    told = []
    for call in (lambda: os.write(fd, b"efgh"), lambda: os.fsync(fd), lambda: os.close(fd)):
        with pytest.raises(OSError) as raised:
            call()
        told.append(raised.value.errno)
    assert told == [errno.ENOSPC, errno.EIO, errno.EIO]
    assert (store / "c/0/0").read_bytes() == (mountpoint / "c/0/0").read_bytes() == b"abcd"
    assert not (store / "c/0/1").exists()


def test_what_was_emptied_and_could_not_be_written_may_be_written_anew(
    disk: Path, mounted: Mounter
) -> None:
    write_keys(disk, {"zarr.json": array(), "c/0/0": b"abcd"})
    mountpoint = mounted(disk, "--read-write")
    fill(disk)
    fd = os.open(mountpoint / "c/0/0", os.O_RDWR)
    with pytest.raises(OSError, match="No space"):
        os.write(fd, b"efgh")
    (disk / "filler").unlink()
    os.ftruncate(fd, 0)
    os.pwrite(fd, b"efgh", 0)
    os.close(fd)
    assert (disk / "c/0/0").read_bytes() == b"efgh"
