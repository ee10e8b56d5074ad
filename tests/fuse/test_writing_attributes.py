"""What the kernel is told while files are written, and what becomes of what was not all written."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from builders.documents import array
from builders.folders import write_keys
from builders.mounts import COMMAND, Daemon

Server = Callable[..., Daemon]


def test_a_listing_that_is_under_way_tells_the_size_of_now(tmp_path: Path, served: Server) -> None:
    (tmp_path / "source").mkdir()
    mount = served(tmp_path / "source", "--view", "raw", "--read-write").mountpoint
    log = os.open(mount / "log", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    os.write(log, b"line1\n")
    with os.scandir(mount) as names:  # sizes are taken
        os.write(log, b"line2 longer\n")
        assert [name.name for name in names] == ["log"]  # and told
    os.write(log, b"line3\n")
    os.close(log)
    assert (tmp_path / "source/log").read_bytes() == b"line1\nline2 longer\nline3\n"


def test_a_chunk_of_which_a_write_failed_is_not_stored(tmp_path: Path, served: Server) -> None:
    write_keys(tmp_path / "source", {"zarr.json": array(), "c/0/0": b"the old chunk"})
    limited = ("prlimit", "--fsize=300000", *COMMAND)
    mount = served(tmp_path / "source", "--read-write", command=limited).mountpoint
    chunk = os.open(mount / "c/0/0", os.O_WRONLY | os.O_TRUNC)
    for _ in range(3):
        assert os.write(chunk, bytes(100_000)) == 100_000
    with pytest.raises(OSError, match="File too large"):
        os.write(chunk, bytes(100_000))
    with pytest.raises(OSError, match="Input/output error"):
        os.close(chunk)
    assert (mount / "c/0/0").read_bytes() == b"the old chunk"
    (mount / "c/0/0").write_bytes(b"the new chunk")
    assert (tmp_path / "source/c/0/0").read_bytes() == b"the new chunk"


def test_a_folder_in_which_a_chunk_is_written_is_not_empty(tmp_path: Path, served: Server) -> None:
    write_keys(tmp_path / "source", {"zarr.json": array()})
    mount = served(tmp_path / "source", "--read-write").mountpoint
    (mount / "c/0").mkdir(parents=True)
    with (mount / "c/0/0").open("wb") as chunk:
        chunk.write(b"four")
        with pytest.raises(OSError, match="not empty"):
            (mount / "c/0").rmdir()
    assert (tmp_path / "source/c/0/0").read_bytes() == b"four"


def test_a_first_document_that_is_renamed_to_its_name_has_the_size_of_what_is_shown(
    tmp_path: Path, served: Server
) -> None:
    (tmp_path / "source").mkdir()
    mount = served(tmp_path / "source", "--view", "plain", "--read-write").mountpoint
    draft = mount / "zarr.json.draft"
    draft.write_bytes(array(shape=[6, 4]))
    with draft.open():  # the kernel goes on knowing it, as that of another writer who waits for it
        draft.rename(mount / "zarr.json")
        with (mount / "zarr.json").open() as opened:
            size = os.fstat(opened.fileno()).st_size
            shown = opened.read()
    assert len(shown) == size != len(array(shape=[6, 4]))  # which is what is stored
    assert json.loads(shown)["shape"] == [6, 4]


def test_control_files_keep_their_time(tmp_path: Path, served: Server) -> None:
    (tmp_path / "source").mkdir()
    before = (tmp_path / "source").stat().st_mtime_ns
    mount = served(tmp_path / "source", "--read-write").mountpoint
    with pytest.raises(OSError, match="Read-only"):
        os.utime(mount / ".zarrfuse", (1, 1))
    assert (tmp_path / "source").stat().st_mtime_ns == before
