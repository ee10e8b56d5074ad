"""A chunk of many parts that is replaced while it is read, by one of the same size and time."""

import os
from pathlib import Path

import pytest
from builders.documents import array, concat_parts
from builders.folders import write_keys

from zarrfuse.errors import Stale
from zarrfuse.stores.local.store import LocalStore
from zarrfuse.transactions.recovered_view import rolled_forward
from zarrfuse.views.choice import open_view

COUNT = 17  # so many are not all held open
TIME_NS = 10**18


def store_parts(root: Path, data: bytes) -> None:
    """As `cp -p` and `tar -x` do, which give each file the time of before."""
    for number in range(COUNT):
        path = root / f"c/0.{number}"
        new = path.with_name("new")
        new.write_bytes(data)
        os.utime(new, ns=(TIME_NS, TIME_NS))
        new.replace(path)


def test_old_and_new_bytes_are_never_read_from_one_open_file(tmp_path: Path) -> None:
    parts = concat_parts(*((f".{number}", 4) for number in range(COUNT)))
    write_keys(tmp_path, {"zarr.json": array((4 * COUNT,), transformers=[parts])})
    (tmp_path / "c").mkdir()
    store_parts(tmp_path, b"old.")
    folder = open_view("chunks", rolled_forward(LocalStore(str(tmp_path))), 0.0).child("c")
    reader = folder.open("0")
    buffer = bytearray(4 * COUNT)
    reader.readinto(memoryview(buffer)[:4], 0)
    store_parts(tmp_path, b"new.")
    with pytest.raises(Stale):
        reader.readinto(memoryview(buffer)[4:], 4)
    reader.close()
    reader = folder.open("0")
    reader.readinto(memoryview(buffer), 0)
    assert buffer == b"new." * COUNT
    reader.close()
