"""A file made of segments reads like the bytes of its segments behind one another."""

import errno
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
from builders.folders import write_keys
from builders.readers import read_clipped
from hypothesis import given
from hypothesis import strategies as st

from zarrfuse.errors import Corrupt, Stale
from zarrfuse.formats.segments import Broken, Literal, Segmented, Stored
from zarrfuse.stores.local.store import LocalStore


class Counted(Literal):
    """A literal that knows whether it was closed."""

    closed = 0

    def close(self) -> None:
        self.closed += 1


class NotAtHand(Literal):
    """A literal that a caller has to wait for."""

    def readinto(self, buffer: memoryview, offset: int, *, wait: bool = True) -> None:
        if not wait:
            raise BlockingIOError(errno.EAGAIN, "wait")
        super().readinto(buffer, offset)


pieces_of_bytes = st.lists(st.binary(max_size=40), min_size=1, max_size=12)


@given(pieces_of_bytes, st.integers(0, 500), st.integers(0, 500))
def test_any_range_is_that_slice_of_the_concatenation(
    pieces: Sequence[bytes], offset: int, size: int
) -> None:
    file = Segmented([Literal(piece) for piece in pieces])
    whole = b"".join(pieces)
    assert file.size == len(whole)
    assert read_clipped(file, offset, size) == whole[offset : offset + size]
    assert read_clipped(file, offset, size, wait=False) == whole[offset : offset + size]


@given(st.lists(pieces_of_bytes, min_size=1, max_size=4), st.integers(0, 500), st.integers(0, 500))
def test_files_of_files_read_the_same(
    files: Sequence[Sequence[bytes]], offset: int, size: int
) -> None:
    file = Segmented([Segmented([Literal(piece) for piece in pieces]) for pieces in files])
    whole = b"".join(b"".join(pieces) for pieces in files)
    assert read_clipped(file, offset, size) == whole[offset : offset + size]


def test_of_ten_thousand_segments_only_those_in_the_range_are_touched() -> None:
    segments = [Broken(3, 0, "must not be read") for _ in range(10_000)]
    file = Segmented([*segments[:5000], Literal(b"abc"), *segments[5000:]])
    assert file.size == 30_003
    assert read_clipped(file, 15_001, 2) == b"bc"


def test_a_segment_that_is_not_at_hand_makes_the_file_so() -> None:
    file = Segmented([Literal(b"ab"), NotAtHand(b"cd")])
    assert read_clipped(file, 0, 2, wait=False) == b"ab"
    with pytest.raises(BlockingIOError):
        read_clipped(file, 1, 2, wait=False)
    assert read_clipped(file, 1, 2) == b"bc"


def test_the_newest_segment_dates_the_file() -> None:
    assert Segmented([Literal(b"a", 5), Literal(b"b", 9), Literal(b"", 7)]).mtime_ns == 9


def test_closing_a_file_closes_each_segment() -> None:
    segments = [Counted(b"a"), Counted(b"b")]
    Segmented(segments).close()
    assert [segment.closed for segment in segments] == [1, 1]


def test_a_broken_file_says_why_with_and_without_waiting() -> None:
    file = Broken(10, 3, "the tail is missing")
    assert (file.size, file.mtime_ns) == (10, 3)
    for wait in (True, False):
        with pytest.raises(Corrupt, match="the tail is missing"):
            read_clipped(file, 0, 1, wait=wait)


def test_a_stored_segment_is_opened_for_each_read_and_holds_nothing(tmp_path: Path) -> None:
    write_keys(tmp_path, {"a": b"0123456789"})
    store = LocalStore(str(tmp_path))
    opened = store.open("a")
    file = Stored(store, "a", opened)
    opened.close()
    assert read_clipped(file, 2, 5) == b"23456"
    assert read_clipped(file, 8, 5) == b"89"
    file.close()
    assert read_clipped(file, 0, 1) == b"0"
    store.close()


@pytest.mark.parametrize("data", [b"012345678", b"0123456789a", b""])
def test_a_stored_segment_of_another_size_is_stale(tmp_path: Path, data: bytes) -> None:
    write_keys(tmp_path, {"a": b"0123456789"})
    store = LocalStore(str(tmp_path))
    opened = store.open("a")
    file = Stored(store, "a", opened)
    opened.close()
    write_keys(tmp_path, {"a": data})
    with pytest.raises(Stale, match="a"):
        read_clipped(file, 0, 1)
    store.close()


def test_many_threads_may_read_one_file() -> None:
    whole = bytes(range(256)) * 40
    file = Segmented([Literal(whole[at : at + 37]) for at in range(0, len(whole), 37)])
    wrong: list[int] = []

    def read(first: int) -> None:
        wrong.extend(
            offset
            for offset in range(first, len(whole), 8)
            if read_clipped(file, offset, 100) != whole[offset : offset + 100]
        )

    threads = [threading.Thread(target=read, args=(first,)) for first in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
