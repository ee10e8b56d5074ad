"""Central directories that others wrote, or that are meant to do harm: what is read, what is refused."""

import errno
import random
import struct
import zipfile
import zlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zarrfuse.errors import Corrupt, SourceError, errno_of
from zarrfuse.stores.base import read
from zarrfuse.stores.zip.directory import find_directory, records
from zarrfuse.stores.zip.file import LocalZip
from zarrfuse.stores.zip.store import ZipStore

HUGE = 1 << 63


def write(path: Path, count: int = 3, **attributes: object) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for number in range(count):
            info = zipfile.ZipInfo(f"c/{number}")
            for name, value in attributes.items():
                setattr(info, name, value)
            archive.writestr(info, bytes([number % 256]) * 10)
    return path


def of_sizes(path: Path, size: int, method: int, offset: int = 0) -> ZipStore:
    """A zip with a member `chunk` that claims to have `size` bytes, and one that is in order."""
    data = zlib.compress(bytes(100))[2:-4] if method else bytes(100)
    escaped = 0xFFFF_FFFF
    local = struct.pack("<4s5H3L2H", b"PK\3\4", 45, 0, method, 0, 33, 0, len(data), 100, 5, 0)
    fine = struct.pack("<4s5H3L2H", b"PK\3\4", 20, 0, 0, 0, 33, zlib.crc32(b"ok"), 2, 2, 4, 0)
    members = local + b"chunk" + data
    fine_at = len(members)
    members += fine + b"fineok"
    extra = struct.pack("<2H3Q", 1, 24, size, len(data) if method else size, offset)
    directory = struct.pack(
        *("<4s6H3L5H2L", b"PK\1\2", 45, 45, 0, method, 0, 33, 0, escaped, escaped),
        *(5, len(extra), 0, 0, 0, 0, escaped),
    )
    directory += b"chunk" + extra
    directory += struct.pack(
        *("<4s6H3L5H2L", b"PK\1\2", 20, 20, 0, 0, 0, 33, zlib.crc32(b"ok"), 2, 2),
        *(4, 0, 0, 0, 0, 0, fine_at),
    )
    directory += b"fine"
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 2, 2, len(directory), len(members), 0)
    path.write_bytes(members + directory + end)
    return ZipStore(str(path))


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("size", [HUGE, (1 << 64) - 1])
def test_size_that_no_file_has_is_an_error_of_that_member(
    tmp_path: Path, size: int, method: int
) -> None:
    store = of_sizes(tmp_path / "a.zip", size, method)
    assert store.list("")["chunk"].size == size  # which the kernel is not told: see `replies`
    with pytest.raises(Corrupt, match=rf"a\.zip: member chunk claims to have {size} bytes") as e:
        store.open("chunk")
    assert errno_of(e.value) == errno.EIO
    assert read(store, "fine") == b"ok"


@pytest.mark.parametrize("offset", [HUGE - 1, HUGE, (1 << 64) - 1])
def test_member_that_begins_where_no_file_goes_is_corrupt(tmp_path: Path, offset: int) -> None:
    store = of_sizes(tmp_path / "a.zip", 100, zipfile.ZIP_DEFLATED, offset)
    with pytest.raises(Corrupt, match="member chunk claims to begin behind all members"):
        store.open("chunk")


@pytest.mark.parametrize("comment", [b"", b"a comment", b"x" * 65535, b"PK\5\6" + b"y" * 10])
@pytest.mark.parametrize("zip64", [False, True])
def test_directory_is_found_behind_any_comment(
    tmp_path: Path, comment: bytes, zip64: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if zip64:
        monkeypatch.setattr(zipfile, "ZIP_FILECOUNT_LIMIT", 1)
    path = write(tmp_path / "a.zip")
    with zipfile.ZipFile(path, "a") as archive:
        archive.comment = comment
    if b"PK\5\6" in comment:  # which `zipfile` takes for the end of the directory, too
        with pytest.raises(SourceError, match="not a whole zip file"):
            ZipStore(str(path))
    else:
        assert set(ZipStore(str(path)).list("c")) == {"0", "1", "2"}


def test_records_are_read_across_blocks(tmp_path: Path) -> None:
    path = write(tmp_path / "a.zip", 40, comment=b"c" * 60_000)
    assert len(ZipStore(str(path)).list("c")) == 40
    assert path.stat().st_size > 2 << 20


def test_several_files_of_one_zip_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 0, 0, 0, 0, 0)
    path.write_bytes(bytes(56) + struct.pack("<4sLQL", b"PK\6\7", 1, 0, 2) + end)
    with pytest.raises(SourceError, match="one of several files"):
        ZipStore(str(path))


def test_newer_version_of_the_format_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.zip", extract_version=64)
    with pytest.raises(SourceError, match=r"of version 6\.4"):
        ZipStore(str(path))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("zip") / "a.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(12):
            info = zipfile.ZipInfo(f"größe/{number}" if number % 2 else f"c/{number}")
            info.extra = struct.pack("<2H4s", 0x5455, 4, b"time") if number % 3 else b""
            archive.writestr(info, random.Random(number).randbytes(20))
    return path.read_bytes()


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_damaged_directory_is_read_as_zipfile_reads_it_or_refused(
    whole: bytes, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    changed = bytearray(whole)
    start = changed.index(b"PK\1\2")
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(start, len(changed) - 1))
        changed[at] = data.draw(st.sampled_from([0, 1, 2, 4, 8, 46, 80, 255]))
    path = tmp_path_factory.mktemp("zip") / "a.zip"
    path.write_bytes(changed)
    try:
        with zipfile.ZipFile(path) as archive:
            expected = [
                (
                    *(i.orig_filename, i.flag_bits, i.compress_type, i.CRC, i.compress_size),
                    *(i.file_size, i.external_attr, i.header_offset),
                )
                for i in archive.filelist
            ]
    except Exception:
        expected = None
    try:
        ZipStore(str(path))
    except SourceError:
        return
    assert expected is not None
    file = LocalZip(str(path))
    found = [(*r[:3], *r[4:]) for r in records(file, find_directory(file))]
    assert found == expected
