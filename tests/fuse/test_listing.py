"""Listing a folder is true while the folder changes, also from where a program left off."""

import ctypes
import os
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from builders.documents import array, group
from builders.folders import write_keys
from builders.mounts import mounting, wait_for
from hypothesis import given, settings
from hypothesis import strategies as st
from sampling import examples

Mounted = Callable[..., Path]
Stored = Callable[..., Path]

_SYS_GETDENTS64 = {"x86_64": 217, "aarch64": 61}[os.uname().machine]
_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


class Listing:
    """A folder read by the system call that `readdir` is made of, a few names at a time."""

    def __init__(self, folder: Path) -> None:
        self.fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)

    def __enter__(self) -> "Listing":
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.fd)

    def some(self, size: int = 300) -> list[tuple[str, int]]:
        """The next names with the offset behind each; empty at the end."""
        buffer = ctypes.create_string_buffer(size)
        count = _libc.syscall(_SYS_GETDENTS64, self.fd, buffer, size)
        if count < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        found, at = [], 0
        while at < count:
            _, offset, length, _ = struct.unpack_from("<QqHB", buffer.raw, at)
            name = buffer.raw[at + 19 : at + length].split(b"\0")[0]
            found.append((os.fsdecode(name), offset))
            at += length
        return found

    def rest(self, size: int = 300) -> list[str]:
        """All names from here on."""
        return [name for names in iter(lambda: self.some(size), []) for name, _ in names]

    def seek(self, offset: int) -> None:
        os.lseek(self.fd, offset, os.SEEK_SET)


def of(names: list[str]) -> list[str]:
    return [name for name in names if name not in (".", "..")]


@pytest.fixture(scope="module", params=["0", "1", "inf"], ids=lambda ttl: f"ttl {ttl}")
def mirrored(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Path, Path]]:
    """(a store, where it is mounted), for the tests that hold for every time to live."""
    base = tmp_path_factory.mktemp("mirrored")
    for folder in ("changes", "offsets"):
        write_keys(
            base / "store" / folder,
            {f"{name}{index:03}": b"" for name in ("stay", "go") for index in range(200)},
        )
    with mounting(base / "store", base / "mnt", "--cache-ttl", request.param) as point:
        yield base / "store", point


STAY = {f"stay{index:03}" for index in range(200)}


def test_a_folder_that_changes_is_listed_without_loss_or_repetition(
    mirrored: tuple[Path, Path],
) -> None:
    source, point = (path / "changes" for path in mirrored)
    with Listing(point) as listing:
        seen = [name for name, _ in listing.some()]
        for index in range(200):
            (source / f"go{index:03}").unlink()
            (source / f"new{index:03}").write_bytes(b"")
            if index % 10 == 0:
                os.listdir(point)  # another program, which sees the change
                seen += [name for name, _ in listing.some()]
        seen += listing.rest()
    assert len(seen) == len(set(seen))
    assert set(seen) >= STAY
    assert sorted(seen)[:2] == [".", ".."]


def test_a_program_that_starts_over_sees_the_folder_as_it_is_now(
    stored: Stored, mounted: Mounted
) -> None:
    source = stored({f"d/{index}": b"" for index in range(100)})
    point = mounted(source, "--cache-ttl", "0")
    with Listing(point / "d") as listing:
        assert len(of(listing.rest())) == 100
        for index in range(50):
            (source / "d" / str(index)).unlink()
        (source / "d" / "new").write_bytes(b"")
        listing.seek(0)
        assert sorted(of(listing.rest())) == sorted([*map(str, range(50, 100)), "new"])


def test_a_listing_goes_on_from_any_offset_it_gave(stored: Stored, mounted: Mounted) -> None:
    source = stored({f"d/{index:03}": b"" for index in range(150)})
    point = mounted(source)
    with Listing(point / "d") as listing:
        entries = [entry for entries in iter(listing.some, []) for entry in entries]
        names = [name for name, _ in entries]
        assert len({offset for _, offset in entries}) == len(entries)
        for index, (_, offset) in enumerate(entries):
            if index % 7 == 0 or index in (0, 1, 2, len(entries) - 1):
                listing.seek(offset)
                assert listing.rest() == names[index + 1 :]
        listing.seek(0)
        assert listing.rest(4096) == names


def test_an_earlier_offset_stays_true_after_the_folder_changed(
    mirrored: tuple[Path, Path],
) -> None:
    source, point = (path / "offsets" for path in mirrored)
    with Listing(point) as listing:
        first = listing.some()
        seen = {name for name, _ in first}
        listing.some()
        for index in range(200):
            (source / f"go{index:03}").unlink()
        (source / "new").write_bytes(b"")
        os.listdir(point)
        listing.seek(first[-1][1])
        rest = listing.rest()
    assert len(rest) == len(set(rest))
    assert not seen & set(rest)
    assert seen | set(rest) >= STAY


def test_a_folder_of_a_hundred_thousand_is_listed_whole(tmp_path: Path, mounted: Mounted) -> None:
    source = tmp_path / "store"
    (source / "c").mkdir(parents=True)
    (source / "zarr.json").write_bytes(array([200_000]))
    for index in range(100_000):  # hard links are made faster than files; a file has up to 65,000
        first = index - index % 50_000
        if index == first:
            (source / "c" / str(index)).write_bytes(b"x" * (index + 1))
        else:
            os.link(source / "c" / str(first), source / "c" / str(index))
    point = mounted(source)
    with os.scandir(point / "c") as names:
        found = {entry.name: entry.stat().st_size for entry in names}
    assert found.keys() == {str(index) for index in range(100_000)}
    assert (found["49999"], found["99999"]) == (1, 50_001)


def test_dot_and_dot_dot_are_listed_once_and_first(stored: Stored, mounted: Mounted) -> None:
    point = mounted(stored({"a/b": b"", "c": b""}))
    for folder in (point, point / "a"):
        with Listing(folder) as listing:
            names = listing.rest()
        assert names[:2] == [".", ".."]
        assert len(names) == len(set(names))


def test_an_empty_folder_is_empty(stored: Stored, mounted: Mounted) -> None:
    source = stored({"zarr.json": group()})
    (source / "nothing").mkdir()
    assert list((mounted(source) / "nothing").iterdir()) == []


def test_a_folder_that_vanished_is_not_found(stored: Stored, mounted: Mounted) -> None:
    source = stored({"a/b": b""})
    point = mounted(source, "--cache-ttl", "0")
    assert os.listdir(point / "a") == ["b"]
    (source / "a/b").unlink()
    (source / "a").rmdir()
    with pytest.raises(FileNotFoundError):
        os.listdir(point / "a")
    assert os.listdir(point) == []


def test_listings_and_names_agree_whatever_a_folder_holds(tmp_path: Path, mounted: Mounted) -> None:
    source = tmp_path / "store"
    source.mkdir()
    point = mounted(source, "--cache-ttl", "0")
    names = [f"n{index}" for index in range(12)]

    @settings(max_examples=examples(60), deadline=None)
    @given(st.dictionaries(st.sampled_from(names), st.binary(max_size=5)))
    def check(files: dict[str, bytes]) -> None:
        for path in source.iterdir():
            path.unlink()
        for name, data in files.items():
            (source / name).write_bytes(data)
        assert sorted(os.listdir(point)) == sorted(files)
        for name in names:
            assert (point / name).exists() == (name in files)
        for name, data in files.items():
            assert (point / name).stat().st_size == len(data)
            assert (point / name).read_bytes() == data

    check()


def test_a_file_that_becomes_a_folder_and_back_is_what_it_is(
    stored: Stored, mounted: Mounted
) -> None:
    source = stored({"d/other": b""})
    point = mounted(source, "--cache-ttl", "0")
    path = source / "d/name"
    for round_ in range(3):
        path.write_bytes(b"file")
        assert (point / "d/name").read_bytes() == b"file"
        path.unlink()
        path.mkdir()
        (path / f"below{round_}").write_bytes(b"deep")
        assert os.listdir(point / "d/name") == [f"below{round_}"]
        assert (point / f"d/name/below{round_}").read_bytes() == b"deep"
        assert (point / "d/name").is_dir()
        (path / f"below{round_}").unlink()
        path.rmdir()
        assert not (point / "d/name").exists()


JUNK = [
    ".Trash",
    ".Trash-1000",
    "autorun.inf",
    ".hidden",
    ".xdg-volume-info",
    "desktop.ini",
    ".DS_Store",
    "._x",
]


@pytest.fixture(params=["chunks", "raw"])
def littered(request: pytest.FixtureRequest, stored: Stored, mounted: Mounted) -> Iterator[Path]:
    keys = {"zarr.json": array([4]), "c/0": b"chunk", "c/deep/file": b""}
    keys |= {f"{folder}{name}": b"junk" for folder in ("", "c/", "c/deep/") for name in JUNK}
    yield mounted(stored(keys), "--view", request.param)


def test_names_that_desktops_look_for_are_not_there_even_if_stored(littered: Path) -> None:
    for folder in ("", "c", "c/deep"):
        for _ in range(2):
            for name in JUNK:
                with pytest.raises(FileNotFoundError):
                    os.stat(littered / folder / name)
                with pytest.raises(FileNotFoundError):
                    os.open(littered / folder / name, os.O_RDONLY)
            os.listdir(littered / folder)


def test_names_that_desktops_look_for_are_not_listed(littered: Path) -> None:
    assert sorted(os.listdir(littered)) == ["c", "zarr.json"]
    assert sorted(os.listdir(littered / "c")) == ["0", "deep"]
    assert os.listdir(littered / "c/deep") == ["file"]


def test_the_control_folder_is_not_listed(littered: Path) -> None:
    assert ".zarrfuse" not in os.listdir(littered)
    assert (littered / ".zarrfuse").is_dir()
    assert not (littered / "c/.zarrfuse").exists()


def test_listing_waits_for_no_more_than_the_folder(stored: Stored, mounted: Mounted) -> None:
    source = stored({f"d/{index}": b"" for index in range(10)})
    point = mounted(source)
    (source / "d" / "late").write_bytes(b"")
    wait_for(lambda: "late" in os.listdir(point / "d"))
