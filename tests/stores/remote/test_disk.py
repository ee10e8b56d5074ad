"""The cache on the disk: what survives, what is found out, what goes."""

import os
import random
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sampling import examples

from zarrfuse.errors import SourceError
from zarrfuse.stores.remote.disk import DiskBlocks

MIB = 1 << 20


def get(disk: DiskBlocks, name: str, size: int) -> bytes | None:
    """All bytes of a block."""
    buffer = bytearray(size)
    return bytes(buffer) if disk.readinto(name, size, memoryview(buffer), 0) else None


def put(disk: DiskBlocks, name: str, data: bytes) -> None:
    disk.put(name, memoryview(data))


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_a_block_survives_a_restart(tmp_path):
    put(DiskBlocks(str(tmp_path / "cache"), 10 * MIB), "s3://a\0key\0v1\0000", b"x" * 1000)
    again = DiskBlocks(str(tmp_path / "cache"), 10 * MIB)
    assert get(again, "s3://a\0key\0v1\0000", 1000) == b"x" * 1000


def test_another_version_is_another_block(tmp_path):
    disk = DiskBlocks(str(tmp_path), 10 * MIB)
    put(disk, "key v1", b"one")
    assert get(disk, "key v2", 3) is None


def test_only_the_user_reads_it(tmp_path):
    disk = DiskBlocks(str(tmp_path / "cache"), 10 * MIB)
    put(disk, "key", b"private")
    (file,) = files(tmp_path)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "cache").stat().st_mode) == 0o700


def test_a_folder_that_others_may_write_is_refused(tmp_path):
    tmp_path.chmod(0o777)
    with pytest.raises(SourceError, match="can be written by others"):
        DiskBlocks(str(tmp_path), MIB)


def test_a_folder_that_cannot_be_made_is_refused(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(SourceError, match="the cache folder"):
        DiskBlocks(str(tmp_path / "file" / "cache"), MIB)


@pytest.mark.parametrize("spoil", ["cut", "flipped", "empty", "exchanged"])
def test_a_torn_or_tampered_block_is_missing_and_deleted(tmp_path, spoil):
    disk = DiskBlocks(str(tmp_path), 10 * MIB)
    put(disk, "key", b"y" * 5000)
    (file,) = files(tmp_path)
    data = file.read_bytes()
    if spoil == "exchanged":  # a whole block, of another name
        put(disk, "other", b"z" * 5000)
        (other,) = (path for path in files(tmp_path) if path != file)
        os.replace(other, file)
    else:
        file.write_bytes(
            {
                "cut": data[:-1],
                "flipped": data[:100] + bytes([data[100] ^ 1]) + data[101:],
                "empty": b"",
            }[spoil]
        )
    assert get(disk, "key", 5000) is None
    assert not files(tmp_path)
    put(disk, "key", b"y" * 5000)
    assert get(disk, "key", 5000) == b"y" * 5000


def test_what_was_used_least_recently_goes_first(tmp_path):
    disk = DiskBlocks(str(tmp_path), 10 * 1100)
    for number in range(10):
        put(disk, f"key {number}", bytes(1000))
        for file in files(tmp_path):
            if file.stat().st_mtime_ns > 10**18:  # just now: as old as its number says
                os.utime(file, ns=(0, (number + 1) * 10**9))
    assert get(disk, "key 0", 1000) is not None  # and so it is used just now
    for number in range(10, 13):
        put(disk, f"key {number}", bytes(1000))
    assert get(disk, "key 0", 1000) is not None
    assert get(disk, "key 1", 1000) is None
    assert get(disk, "key 12", 1000) is not None
    assert sum(file.stat().st_size for file in files(tmp_path)) <= 10 * 1100


def test_two_processes_stay_below_the_limit_together(tmp_path):
    script = (
        "import sys; from zarrfuse.stores.remote.disk import DiskBlocks\n"
        "disk = DiskBlocks(sys.argv[1], 200_000)\n"
        "for number in range(300):\n"
        "    data = bytes(2000) + sys.argv[2].encode()\n"
        "    disk.put(f'{sys.argv[2]} {number}', memoryview(data))\n"
        "    buffer = memoryview(bytearray(2001))\n"
        "    if disk.readinto(f'{sys.argv[3]} {number}', 2001, buffer, 0):\n"
        "        assert buffer == bytes(2000) + sys.argv[3].encode()\n"
    )
    processes = [
        subprocess.Popen([sys.executable, "-c", script, str(tmp_path), own, other])
        for own, other in (("a", "b"), ("b", "a"))
    ]
    assert [process.wait(60) for process in processes] == [0, 0]
    DiskBlocks(str(tmp_path), 200_000)
    assert sum(file.stat().st_size for file in files(tmp_path)) <= 200_000


def test_mounts_that_share_a_folder_heed_what_the_others_put_there(tmp_path):
    mounts = [DiskBlocks(str(tmp_path), 100_000) for _ in range(4)]
    for number in range(90):
        for own, disk in enumerate(mounts):
            disk.put(f"{own} {number}", bytes(1000))
    assert sum(file.stat().st_size for file in files(tmp_path)) <= 160_000


def test_a_disk_that_takes_nothing_is_no_error(tmp_path):
    disk = DiskBlocks(str(tmp_path / "cache"), MIB)
    os.rmdir(tmp_path / "cache")
    (tmp_path / "cache").write_bytes(b"")
    put(disk, "key", b"data")
    assert get(disk, "key", 4) is None


def test_what_a_killed_process_left_is_deleted(tmp_path):
    disk = DiskBlocks(str(tmp_path), MIB)
    put(disk, "key", b"data")
    left = files(tmp_path)[0].parent / ".zarrfuse-tmp-left"
    left.write_bytes(b"half")
    os.utime(left, ns=(0, 0))
    again = DiskBlocks(str(tmp_path), MIB)
    assert not left.exists()
    assert get(again, "key", 4) == b"data"


@settings(deadline=None, max_examples=examples(200), database=None)
@given(st.data())
def test_any_range_of_a_block_is_that_slice(tmp_path_factory, data):
    disk = DiskBlocks(str(tmp_path_factory.getbasetemp() / "ranges"), 100 * MIB)
    size = data.draw(st.sampled_from([1, 65535, 65536, 65537, 300_000, MIB]))
    whole = random.Random(size).randbytes(size)
    put(disk, f"block {size}", whole)
    start = data.draw(st.integers(0, size))
    stop = data.draw(st.integers(start, size))
    buffer = memoryview(bytearray(stop - start))
    assert disk.readinto(f"block {size}", size, buffer, start)
    assert buffer == whole[start:stop]


def test_damage_is_found_where_it_is_read(tmp_path):
    disk = DiskBlocks(str(tmp_path), 10 * MIB)
    put(disk, "key", bytes(MIB))
    (file,) = files(tmp_path)
    with file.open("r+b") as opened:
        opened.seek(-1, os.SEEK_END)
        opened.write(b"x")
    assert disk.readinto("key", MIB, memoryview(bytearray(100)), 0)
    assert not disk.readinto("key", MIB, memoryview(bytearray(100)), MIB - 100)
    assert not disk.has("key")


def test_what_is_no_block_is_neither_counted_nor_deleted(tmp_path):
    mine = [tmp_path / "ab" / "notes.txt", tmp_path / "db" / ".tmp-x", tmp_path / "go" / ("a" * 62)]
    for file in mine:
        file.parent.mkdir()
        file.write_bytes(bytes(10_000))
        os.utime(file, ns=(0, 0))
    disk = DiskBlocks(str(tmp_path), 5_000)
    for number in range(10):
        put(disk, f"key {number}", bytes(1000))
    assert [file.stat().st_size for file in mine] == [10_000] * 3
    assert get(disk, "key 9", 1000) is not None
