"""Files with times before those of the files that they replace, as after the clock was set back."""

import os
from pathlib import Path

import pytest
from builders.documents import array, concat_parts
from builders.folders import write_files
from builders.mounts import serving

from zarrfuse.stores.local.store import LocalStore
from zarrfuse.views.choice import open_view

SIZE = 100
PARTS = [concat_parts((".a", SIZE), "")]
NOW_NS = 1_700_000_000 * 10**9


def put(path: Path, data: bytes, mtime_ns: int) -> None:
    """Write a file that has a given time."""
    new = path.with_name("new")
    new.write_bytes(data)
    os.utime(new, ns=(mtime_ns, mtime_ns))
    new.rename(path)


def test_bytes_of_now_are_read_although_they_are_older(tmp_path: Path):
    source = tmp_path / "source"
    write_files(source, {"zarr.json": array((8, 8), transformers=PARTS)})
    (source / "c/0").mkdir(parents=True)
    for name, mtime_ns in (("c/0/0", NOW_NS), ("c/0/0.a", NOW_NS - 10**9), ("file", NOW_NS)):
        put(source / name, b"a" * SIZE, mtime_ns)
    with serving(tmp_path, source, "--cache-ttl", "0") as daemon:
        chunk, file = daemon.mountpoint / "c/0/0", daemon.mountpoint / "file"
        for _ in range(2):  # by now the kernel has the pages
            assert chunk.read_bytes() == b"a" * 2 * SIZE
            assert file.read_bytes() == b"a" * SIZE
        put(source / "c/0/0.a", b"b" * SIZE, NOW_NS - 2 * 10**9)
        put(source / "file", b"b" * SIZE, NOW_NS - 2 * 10**9)
        assert chunk.read_bytes() == b"b" * SIZE + b"a" * SIZE
        assert file.read_bytes() == b"b" * SIZE
        put(source / "c/0/0", b"c" * SIZE, NOW_NS - 3 * 10**9)
        assert chunk.read_bytes() == b"b" * SIZE + b"c" * SIZE


def test_what_is_written_while_stored_files_are_of_the_future_is_read(tmp_path: Path):
    source = tmp_path / "source"
    write_files(source, {"zarr.json": array((8, 8), transformers=PARTS)})
    (source / "c/0").mkdir(parents=True)
    future_ns = 4_000_000_000 * 10**9
    for name in ("c/0/0", "c/0/0.a"):
        put(source / name, b"a" * SIZE, future_ns)
    with (
        serving(tmp_path, source, "--read-write", name="writes") as writing,
        serving(tmp_path, source, "--cache-ttl", "0", name="reads") as reading,
    ):
        for data in (b"b", b"c"):
            (writing.mountpoint / "c/0/0").write_bytes(data * 2 * SIZE)
            for daemon in (writing, reading):
                assert (daemon.mountpoint / "c/0/0").read_bytes() == data * 2 * SIZE
            os.utime(source, ns=(future_ns, future_ns))
            if (source / ".zarrfuse").exists():  # where journals are looked for
                os.utime(source / ".zarrfuse", ns=(future_ns, future_ns))


@pytest.mark.parametrize("at", [NOW_NS, NOW_NS + 1, NOW_NS + 123_456_789])
def test_time_that_all_parts_have_is_shown_as_it_is(tmp_path: Path, at: int):
    source = tmp_path / "source"
    write_files(source, {"zarr.json": array((8, 8), transformers=PARTS)})
    (source / "c/0").mkdir(parents=True)
    for name in ("c/0/0", "c/0/0.a"):
        put(source / name, b"a" * SIZE, at)
    entry = open_view("chunks", LocalStore(str(source)), 0).child("c").child("0").lookup("0")
    assert entry.mtime_ns == at
