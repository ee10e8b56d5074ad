"""What changes in a store is seen once its time to live is over, whatever the kernel had cached."""

import mmap
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from builders.documents import array, concat_parts
from builders.folders import NEWEST_NS, write_keys
from builders.mounts import drop_caches, mounting, wait_for

Mounted = Callable[..., Path]
Stored = Callable[..., Path]
Pair = Callable[..., tuple[Path, Path]]

TTL_S = 0.1


@pytest.fixture(scope="module")
def mirrored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Path]]:
    """(a store, where it is mounted), for all tests that ask for no other time to live."""
    base = tmp_path_factory.mktemp("mirrored")
    (base / "store").mkdir()
    with mounting(base / "store", base / "mnt", "--cache-ttl", str(TTL_S)) as point:
        yield base / "store", point


@pytest.fixture
def pair(mirrored: tuple[Path, Path]) -> Pair:
    """`pair(keys)` writes a folder of these keys; the folder, and where it is mounted."""

    def write(keys: Mapping[str, bytes]) -> tuple[Path, Path]:
        source, point = mirrored
        name = f"folder{len(os.listdir(source))}"
        write_keys(source / name, keys)
        wait_for((point / name).exists)
        return source / name, point / name

    return write


SMALL, LARGE = 1000, 3_000_000
"""Bytes: of a file that is pushed to the kernel when opened, and of one that is read."""


@pytest.mark.parametrize("size", [SMALL, LARGE])
@pytest.mark.parametrize("change", [-100, 0, 100, 70_000])
def test_a_rewritten_file_is_seen_with_its_new_content(pair: Pair, size: int, change: int) -> None:
    source, point = pair({"file": b"a" * size})
    for _ in range(2):
        assert (point / "file").read_bytes() == b"a" * size
    (source / "file").write_bytes(b"b" * (size + change))
    wait_for(lambda: (point / "file").read_bytes() == b"b" * (size + change))
    assert (point / "file").stat().st_size == size + change


def test_a_replaced_file_is_seen_with_its_new_content(pair: Pair) -> None:
    source, point = pair({"file": b"old"})
    assert (point / "file").read_bytes() == b"old"
    (source / "other").write_bytes(b"new")
    os.replace(source / "other", source / "file")
    wait_for(lambda: (point / "file").read_bytes() == b"new")
    wait_for(lambda: os.listdir(point) == ["file"])


def test_a_part_that_is_rewritten_changes_the_merged_file(pair: Pair) -> None:
    source, point = pair(
        {
            "zarr.json": array([4], transformers=[concat_parts(".head", "", ".tail")]),
            "c/0.head": b"h" * 10,
            "c/0": b"m" * 200_000,
            "c/0.tail": b"t" * 10,
        }
    )
    assert (point / "c/0").read_bytes()[-12:] == b"mm" + b"t" * 10
    (source / "c/0.tail").write_bytes(b"T" * 20)
    wait_for(lambda: (point / "c/0").read_bytes()[-22:] == b"mm" + b"T" * 20)
    (source / "c/0.head").write_bytes(b"H" * 10)
    wait_for(lambda: (point / "c/0").read_bytes()[:11] == b"H" * 10 + b"m")


def test_without_a_time_to_live_each_open_sees_the_file_as_it_is(
    stored: Stored, mounted: Mounted
) -> None:
    source = stored({"file": b""})
    point = mounted(source, "--cache-ttl", "0")
    for round_ in range(200):
        data = bytes([round_]) * (round_ * 37 % 2000)
        (source / "file").write_bytes(data)
        assert (point / "file").read_bytes() == data
        assert (point / "file").stat().st_size == len(data)


def test_a_small_file_rewritten_often_is_never_a_mixture_once_its_attributes_are_fresh(
    pair: Pair,
) -> None:
    source, point = pair({"file": b"start"})
    for round_ in range(40):
        data = bytes([round_]) * (100 + round_ * 997 % 6000)
        (source / "file").write_bytes(data)
        (point / "file").read_bytes()  # whatever that is, it is cached
        wait_for(lambda data=data: (point / "file").stat().st_size == len(data))
        wait_for(lambda data=data: (point / "file").read_bytes() == data)


def test_a_file_that_is_open_while_it_is_rewritten_reads_anew_when_opened_again(pair: Pair) -> None:
    source, point = pair({"file": b"a" * 5000})
    with (point / "file").open("rb", buffering=0) as kept:
        assert kept.read(10) == b"a" * 10
        (source / "new").write_bytes(b"b" * 6000)
        os.replace(source / "new", source / "file")
        wait_for(lambda: (point / "file").read_bytes() == b"b" * 6000)


def test_a_mapped_file_that_is_replaced_reads_anew_when_mapped_again(pair: Pair) -> None:
    source, point = pair({"file": b"a" * 5000})

    def mapped() -> bytes:
        with (
            (point / "file").open("rb") as file,
            mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as view,
        ):
            return view[:]

    assert mapped() == b"a" * 5000
    (source / "file").write_bytes(b"b" * 5000)
    wait_for(lambda: mapped() == b"b" * 5000)


def test_names_that_appear_and_vanish_are_seen(stored: Stored, mounted: Mounted) -> None:
    source = stored({"d/old": b"x"})
    point = mounted(source)  # the time to live of a folder: a second
    assert not (point / "d/new").exists()
    assert os.listdir(point / "d") == ["old"]
    (source / "d/new").write_bytes(b"new")
    (source / "d/old").unlink()
    wait_for((point / "d/new").exists)
    wait_for(lambda: not (point / "d/old").exists())
    assert (point / "d/new").read_bytes() == b"new"
    wait_for(lambda: os.listdir(point / "d") == ["new"])


def test_a_chunk_being_written_part_by_part_is_whole_in_the_end(pair: Pair) -> None:
    source, point = pair({"zarr.json": array([4], transformers=[concat_parts("", (".index", 3))])})
    (source / "c").mkdir()
    assert not (point / "c/0").exists()
    (source / "c/0").write_bytes(b"main")
    wait_for((point / "c/0").exists)
    with pytest.raises(OSError):
        (point / "c/0").read_bytes()
    (source / "c/0.index").write_bytes(b"end")

    def whole() -> bool:
        try:
            return (point / "c/0").read_bytes() == b"mainend"
        except OSError:
            return False

    wait_for(whole)


def test_metadata_that_is_rewritten_changes_what_is_shown(pair: Pair) -> None:
    source, point = pair({"zarr.json": b"{", "c/0": b"1", "c/0.i": b"2"})
    with pytest.raises(OSError):
        (point / "c/0").read_bytes()
    (source / "zarr.json").write_bytes(array([4], transformers=[concat_parts("", ".i")]))

    def merged() -> bool:
        try:
            return (point / "c/0").read_bytes() == b"12"
        except OSError:
            return False

    wait_for(merged)
    wait_for(lambda: os.listdir(point / "c") == ["0"])
    wait_for(lambda: not (point / "c/0.i").exists())


def test_with_no_end_of_time_to_live_nothing_is_looked_at_again(
    stored: Stored, mounted: Mounted
) -> None:
    source = stored({"d/file": b"old", "d/gone": b"x"})
    point = mounted(source, "--cache-ttl", "inf")
    assert (point / "d/file").read_bytes() == b"old"
    assert not (point / "d/new").exists()
    listed = sorted(os.listdir(point / "d"))
    status = (point / "d/file").stat()
    (source / "d/new").write_bytes(b"new")
    os.utime(source / "d/file", ns=(NEWEST_NS + 1, NEWEST_NS + 1))
    (source / "d/gone").unlink()
    assert not (point / "d/new").exists()
    assert (point / "d/file").stat() == status
    assert (point / "d/gone").exists()
    assert sorted(os.listdir(point / "d")) == listed == ["file", "gone"]


def test_dropping_the_caches_shows_the_bytes_of_the_store(stored: Stored, mounted: Mounted) -> None:
    source = stored({"file": b"old" * 1000})
    point = mounted(source)
    assert (point / "file").read_bytes() == b"old" * 1000
    drop_caches()
    assert (point / "file").read_bytes() == b"old" * 1000
