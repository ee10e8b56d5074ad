"""A chunk that takes too much to be decoded is an error of its own bytes, and costs no more than others."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
import pytest
import zarr
from bombs import BOMBS, gzip_bomb, zstd_bomb
from builders.images_view import images
from builders.processes import decoders, peak_bytes
from builders.readers import read_range
from builders.views import content_of, opened
from zarr.codecs import GzipCodec, ZstdCodec

from zarrfuse.errors import Corrupt
from zarrfuse.stores.local.store import LocalStore
from zarrfuse.views.base import Folder

NEW_BYTES = 60 << 20
"""What a process that decodes takes before it does."""
VALUES = np.arange(1000, 1008, dtype="<u2")


def shown(folder: Path, chunk: bytes, codecs: Any) -> Folder:
    """The array of two chunks, of which the first is `chunk`."""
    array = zarr.create_array(folder / "a", shape=(8,), chunks=(4,), dtype="u2", compressors=codecs)
    array[...] = VALUES
    (folder / "a/c/0").write_bytes(chunk)
    return images(LocalStore(str(folder)))


@pytest.fixture
def bounded() -> Iterator[None]:
    """What the test takes here and in the processes that decode stays below 300 MiB in all.

    A process that ended over the bomb is not counted: it had a limit of its own.
    """

    def peaks() -> dict[Path, int]:
        return {process: peak_bytes(process.name) for process in (Path("/proc/self"), *decoders())}

    for process in peaks():
        (process / "clear_refs").write_text("5")  # the peak begins anew
    before = peaks()
    yield
    after = peaks()
    taken = (peak - before.get(process, NEW_BYTES) for process, peak in after.items())
    assert sum(taken) < 300 << 20


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_an_error_within_little_memory_and_its_neighbour_is_read(
    name: str, tmp_path: Path, bounded: None
) -> None:
    codecs, chunk = BOMBS[name]
    root = shown(tmp_path, chunk, codecs)
    content_of(root, "a/c/1.tiff")
    with pytest.raises(Corrupt, match=r"^a: chunk c/0: cannot be decoded: "):
        content_of(root, "a/c/0.tiff")
    assert VALUES[4:].tobytes() in content_of(root, "a/c/1.tiff")


@pytest.mark.parametrize("codec", ["gzip", "zstd"])
def test_a_bomb_in_a_shard_is_an_error_of_its_own_bytes(
    codec: str, tmp_path: Path, bounded: None
) -> None:
    made, bomb = {"gzip": (GzipCodec(), gzip_bomb()), "zstd": (ZstdCodec(), zstd_bomb())}[codec]
    array = zarr.create_array(
        tmp_path / "a", shape=(16,), chunks=(4,), shards=(8,), dtype="u2", compressors=made
    )
    array[...] = values = np.arange(1000, 1016, dtype="<u2")
    stored = tmp_path / "a/c/0"
    data = stored.read_bytes()
    index = np.frombuffer(data[-36:-4], "<u8").reshape(2, 2).copy()
    index[1] = len(data) - 36, len(bomb)
    table = index.tobytes()
    checksum = google_crc32c.value(table).to_bytes(4, "little")
    stored.write_bytes(data[:-36] + bomb + table + checksum)
    with opened(images(LocalStore(str(tmp_path))), "a/a.npy") as reader:
        begin = reader.size - values.nbytes
        with pytest.raises(Corrupt, match=r"^a: chunk c/0: cannot be decoded: "):
            read_range(reader, begin + 8, 8)
        assert read_range(reader, begin, 8) == values[:4].tobytes()
        assert read_range(reader, begin + 16, 16) == values[8:].tobytes()
