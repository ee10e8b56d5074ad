"""Of a chunk that cannot be decoded only its own bytes fail; what changes is read anew."""

import io
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
from builders.array_layouts import Layout, little
from builders.images_view import assert_npy, assert_tiff, images, rendering
from builders.readers import read_range
from builders.views import content_of, opened
from zarr.codecs import Crc32cCodec, GzipCodec, ZstdCodec

from zarrfuse.errors import Corrupt
from zarrfuse.stores.local.store import LocalStore
from zarrfuse.views.base import Folder


def pixels_begin(folder: Path, name: str) -> dict[str, int]:
    """Where the pixels begin in the files of a whole array, which can be read."""
    store = LocalStore(str(folder))
    root = images(store)
    npy, tiff = (content_of(root, rendering(name, ending)) for ending in ("npy", "tiff"))
    store.close()
    with tifffile.TiffFile(io.BytesIO(tiff)) as file:
        in_tiff = int(file.pages.first.dataoffsets[0])
    return {"npy": len(npy) - np.load(io.BytesIO(npy)).nbytes, "tiff": in_tiff}


def assert_damage(
    root: Folder, name: str, values: Any, broken: tuple[slice, ...], begin: dict[str, int]
) -> None:
    """Of the whole-array files, reading an element fails if it lies in the box, and else does not."""
    bad = np.zeros(values.shape, bool)
    bad[broken] = True
    expected = little(values).tobytes()
    size = values.itemsize
    for ending, head in begin.items():
        with opened(root, rendering(name, ending)) as reader:
            for index in range(values.size):
                at = index * size
                if bad.flat[index]:
                    with pytest.raises(Corrupt, match=f"^{name}: chunk c/"):
                        read_range(reader, head + at, size)
                else:
                    assert read_range(reader, head + at, size) == expected[at : at + size]


@pytest.mark.parametrize(
    "codecs",
    [[ZstdCodec(checksum=True)], [GzipCodec()], [Crc32cCodec()]],
    ids=["zstd", "gzip", "crc32c"],
)
def test_of_a_corrupt_chunk_only_its_own_bytes_fail(tmp_path: Path, codecs: list[Any]) -> None:
    array = Layout("a", "uint16", (5, 7), (2, 3), {"compressors": codecs}).write(tmp_path)
    values = np.asarray(array[...])
    begin = pixels_begin(tmp_path, "a")
    stored = tmp_path / "a/c/1/1"
    data = bytearray(stored.read_bytes())
    data[len(data) // 2] ^= 0xFF
    stored.write_bytes(data)
    store = LocalStore(str(tmp_path))
    root = images(store)
    assert_damage(root, "a", values, (slice(2, 4), slice(3, 6)), begin)
    with pytest.raises(Corrupt, match="c/1/1"):
        content_of(root, "a/c/1/1.tiff")
    assert_tiff(content_of(root, "a/c/1/2.tiff"), values[2:4, 6:])
    store.close()


@pytest.mark.parametrize("left", [0, 1, 5])
def test_of_a_chunk_that_is_cut_off_only_its_own_bytes_fail(tmp_path: Path, left: int) -> None:
    array = Layout("a", "uint16", (5, 7), (2, 3), {"compressors": None}).write(tmp_path)
    values = np.asarray(array[...])
    begin = pixels_begin(tmp_path, "a")
    stored = tmp_path / "a/c/0/0"
    stored.write_bytes(stored.read_bytes()[:left])
    store = LocalStore(str(tmp_path))
    assert_damage(images(store), "a", values, (slice(0, 2), slice(0, 3)), begin)
    store.close()


def test_of_a_corrupt_piece_of_a_shard_only_its_own_bytes_fail(tmp_path: Path) -> None:
    options = {"shards": (4, 6), "compressors": [Crc32cCodec()]}
    array = Layout("a", "uint16", (7, 11), (2, 3), options).write(tmp_path)
    values = np.asarray(array[...])
    begin = pixels_begin(tmp_path, "a")
    stored = tmp_path / "a/c/1/0"
    data = bytearray(stored.read_bytes())
    index = np.frombuffer(data[-4 - 4 * 16 : -4], "<u8").reshape(2, 2, 2)
    data[int(index[0, 1, 0])] ^= 0xFF
    stored.write_bytes(data)
    store = LocalStore(str(tmp_path))
    assert_damage(images(store), "a", values, (slice(4, 6), slice(3, 6)), begin)
    store.close()


def test_of_a_shard_without_its_index_only_its_own_bytes_fail(tmp_path: Path) -> None:
    array = Layout("a", "uint16", (7, 11), (2, 3), {"shards": (4, 6)}).write(tmp_path)
    values = np.asarray(array[...])
    begin = pixels_begin(tmp_path, "a")
    stored = tmp_path / "a/c/1/0"
    data = bytearray(stored.read_bytes())
    data[-1] ^= 0xFF  # of the index's own checksum
    stored.write_bytes(data)
    store = LocalStore(str(tmp_path))
    assert_damage(images(store), "a", values, (slice(4, 7), slice(0, 6)), begin)
    store.close()


def test_a_chunk_that_is_whole_again_is_read_again(tmp_path: Path) -> None:
    """Errors are not kept."""
    array = Layout("a", "uint16", (5, 7), (2, 3)).write(tmp_path)
    values = np.asarray(array[...])
    stored = tmp_path / "a/c/1/1"
    data = stored.read_bytes()
    stored.write_bytes(b"not zstd at all")
    store = LocalStore(str(tmp_path))
    root = images(store, ttl_s=0)
    with pytest.raises(Corrupt):
        content_of(root, "a/a.npy")
    stored.write_bytes(data)
    assert_npy(content_of(root, "a/a.npy"), values)
    store.close()


def test_a_chunk_that_is_written_anew_is_read_anew(tmp_path: Path) -> None:
    array = Layout("a", "uint16", (5, 7), (2, 3)).write(tmp_path)
    store = LocalStore(str(tmp_path))
    root = images(store, ttl_s=0)
    for number in range(3):
        array[...] = number + 1
        values = np.asarray(array[...])
        assert_npy(content_of(root, "a/a.npy"), values)
        assert_tiff(content_of(root, "a/a.tiff"), values)
        assert_tiff(content_of(root, "a/c/1/1.tiff"), values[2:4, 3:6])
    store.close()


@pytest.mark.parametrize("shards", [None, (4, 6)])
def test_the_log_names_the_broken_chunk_once_and_no_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, shards: tuple[int, ...] | None
) -> None:
    """Though chunks are decoded together."""
    options = {"compressors": [Crc32cCodec()], **({"shards": shards} if shards else {})}
    Layout("g/a", "uint16", (7, 11), (2, 3), options).write(tmp_path)
    stored = tmp_path / ("g/a/c/1/1" if shards else "g/a/c/2/3")
    data = bytearray(stored.read_bytes())
    data[2] ^= 0xFF
    stored.write_bytes(data)
    store = LocalStore(str(tmp_path))
    root = images(store)
    with caplog.at_level(logging.WARNING):
        for ending in ("npy", "tiff", "npy"):
            with pytest.raises(Corrupt):
                content_of(root, f"g/a/a.{ending}")
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 1, told
    assert told[0].startswith(f"g/a: chunk {stored.relative_to(tmp_path / 'g/a')}: ")
    store.close()
