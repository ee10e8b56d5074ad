"""What `status.json` counts as faults, on which somebody may be alarmed, and what as refusals."""

import errno
import os
from pathlib import Path

import pytest
from builders.folders import write_files
from builders.mounts import serving
from daemons import fake

from zarrfuse.errors import (
    Corrupt,
    Denied,
    MetadataError,
    NotFound,
    PartsDoNotFit,
    ReadOnly,
    Stale,
    TimedOut,
)
from zarrfuse.fuse.failures import Failures


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (Corrupt("a part is missing"), "EIO"),
        (TimedOut("no answer"), "ETIMEDOUT"),
        (OSError(errno.ENOSPC, "full"), "ENOSPC"),
        (OSError(errno.EDQUOT, "full"), "EDQUOT"),
        (OSError(errno.EMFILE, "no descriptor"), "EMFILE"),
        (MemoryError(), "ENOMEM"),
        (KeyError("not ours"), "EIO"),
    ],
)
def test_fault_is_counted_by_its_errno(error: Exception, name: str):
    failures = Failures()
    for _ in range(2):
        assert failures.note("read", error) == getattr(errno, name)
    found = failures.status()
    assert (found["errors"], found["refusals"]) == ({name: 2}, {})
    assert list(found["last_errors"]) == ["read"]


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (NotFound("no key a"), "ENOENT"),
        (Denied("a link leads out"), "EACCES"),
        (ReadOnly("the mount is read-only"), "EROFS"),
        (MetadataError("unknown codec"), "ENOTSUP"),
        (PartsDoNotFit("3 bytes"), "EINVAL"),
        (Stale("the kernel looks it up again"), "ESTALE"),
    ],
)
def test_refusal_is_counted_apart(error: Exception, name: str):
    failures = Failures()
    code = failures.note("open", error)
    found = failures.status()
    assert (found["errors"], found["refusals"]) == ({}, {errno.errorcode[code]: 1})
    assert code == getattr(errno, name)
    assert list(found["last_refusals"]) == ["open"]


def test_writing_chunks_and_looking_for_what_is_not_there_is_no_fault(tmp_path: Path):
    source = tmp_path / "source"
    write_files(source, {"zarr.json": b'{"zarr_format": 3, "node_type": "group"}'})
    with serving(tmp_path, source, "--read-write") as daemon:
        document = daemon.mountpoint / "zarr.json"
        for _ in range(3):
            with document.open("r+b") as file:
                file.write(document.read_bytes())
        with pytest.raises(FileNotFoundError):
            document.with_name("nothing").unlink()
        with pytest.raises(OSError):
            os.mkfifo(document.with_name("fifo"))
        assert daemon.status()["errors"] == {}
        assert "ESTALE" not in daemon.status()["refusals"]


def test_unexpected_exception_of_a_store_is_a_fault(tmp_path: Path):
    source = tmp_path / "source"
    write_files(source, {"open!KeyError": b"data"})
    with serving(tmp_path, source, command=fake(store="failing")) as daemon:
        with pytest.raises(OSError):
            (daemon.mountpoint / "open!KeyError").read_bytes()
        assert daemon.status()["errors"] == {"EIO": 1}
