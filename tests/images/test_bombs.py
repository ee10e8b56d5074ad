"""A chunk that takes too much to be decoded is an error of its own bytes, and costs no more than others.

So is one whose codec crashes. The daemon lives, and other chunks are read.
"""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from bombs import BOMBS, gzip_bomb, zstd_bomb
from reading import whole
from shown import images
from zarr.codecs import GzipCodec, ZstdCodec

from zarrfuse.decoding.workers import WORKERS
from zarrfuse.errors import Corrupt, NotSupported
from zarrfuse.stores.local import LocalStore
from zarrfuse.views.base import Folder

VALUES = np.arange(1000, 1008, dtype="<u2")


def shown(folder: Path, chunk: bytes, codecs: Any) -> Folder:
    """The array of two chunks, of which the first is `chunk`."""
    array = zarr.create_array(
        folder / "a", shape=(8,), chunks=(4,), dtype="u2", compressors=codecs
    )
    array[...] = VALUES
    (folder / "a/c/0").write_bytes(chunk)
    return images(LocalStore(str(folder)))


def decoders() -> dict[int, Path]:
    """The processes that decode for this one, by their ids."""
    found = {}
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            text = status.read_text()
        except OSError:  # it has ended
            continue
        if re.search(rf"^PPid:\t{os.getpid()}$", text, re.MULTILINE):
            command = (status.parent / "cmdline").read_bytes()
            if b"zarrfuse.decoding.worker" in command:
                found[int(status.parent.name)] = status
    return found


def peak_bytes(status: Path) -> int:
    found = re.search(r"^VmHWM:\s+(\d+) kB", status.read_text(), re.MULTILINE)
    return int(found[1]) << 10 if found else 0


@pytest.fixture
def memory() -> Iterator[None]:
    """All that the test takes, in processes that decode and in this one, is below 300 MiB."""
    WORKERS.close()
    zarr.open  # noqa: B018
    own = Path("/proc/self/status")
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins here
    before = peak_bytes(own)
    yield
    taken = peak_bytes(own) - before + sum(map(peak_bytes, decoders().values()))
    assert 0 < taken < 300 << 20


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_an_error_within_little_memory_and_its_neighbour_is_read(
    name: str, tmp_path: Path, memory: None
) -> None:
    codecs, chunk = BOMBS[name]
    root = shown(tmp_path, chunk, codecs)
    whole(root, "a/c/1.tiff")
    begun = time.process_time()
    with pytest.raises(Corrupt, match="^a: chunk c/0: cannot be decoded: "):
        whole(root, "a/c/0.tiff")
    assert time.process_time() - begun < 5
    assert VALUES[4:].tobytes() in whole(root, "a/c/1.tiff")


@pytest.mark.parametrize("codec", ["gzip", "zstd"])
def test_a_bomb_in_a_shard_is_an_error_of_its_own_bytes(
    codec: str, tmp_path: Path, memory: None
) -> None:
    made, bomb = {"gzip": (GzipCodec(), gzip_bomb()), "zstd": (ZstdCodec(), zstd_bomb())}[codec]
    array = zarr.create_array(
        tmp_path / "a", shape=(16,), chunks=(4,), shards=(8,), dtype="u2", compressors=made
    )
    array[...] = values = np.arange(1000, 1016, dtype="<u2")
    stored = tmp_path / "a/c/0"
    data = stored.read_bytes()
    index = np.frombuffer(data[-36:-4], "<u8").reshape(2, 2).copy()
    index[1] = 36 + len(data[:-36]), len(bomb)
    import google_crc32c

    index[:, 0] -= 36
    body = data[:-36] + bomb
    raw = index.tobytes()
    index[0, 0], index[1, 0] = 0, len(data) - 36
    raw = index.tobytes()
    stored.write_bytes(body + raw + google_crc32c.value(raw).to_bytes(4, "little"))
    root = images(LocalStore(str(tmp_path)))
    npy = "a/a.npy"
    folder = root.child("a")
    reader = folder.open("a.npy")
    begin = reader.size - values.nbytes
    for at, wrong in ((0, False), (8, True), (16, False)):
        buffer = bytearray(8)
        if wrong:
            with pytest.raises(Corrupt, match=r"^a: chunk c/0: cannot be decoded"):
                reader.readinto(memoryview(buffer), begin + at)
        else:
            reader.readinto(memoryview(buffer), begin + at)
            assert buffer == values.tobytes()[at : at + 8]
    reader.close()
