"""What is stored for an array is held within bounds, whatever its sizes are said to be."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from builders.documents import array
from builders.folders import write_keys
from builders.images_view import images
from builders.processes import peak_bytes
from builders.readers import read_range
from builders.views import content_of, opened

from zarrfuse.errors import Corrupt, NotSupported
from zarrfuse.stores.cache import ByteCache
from zarrfuse.stores.local.store import LocalStore
from zarrfuse.views.chunks.view import ChunksView
from zarrfuse.views.images.decode import Decoder
from zarrfuse.views.images.stored_bytes import ArrayFiles


def sharded(shape: tuple[int, ...], shard: tuple[int, ...], inner: tuple[int, ...]) -> bytes:
    """The document of an array of bytes in shards, whose index has no checksum."""
    configuration = {
        "chunk_shape": inner,
        "codecs": [{"name": "bytes"}],
        "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
    }
    codecs = [{"name": "sharding_indexed", "configuration": configuration}]
    return array(shape, shard, codecs=codecs)


def sparse(path: Path, size: int, end: bytes = b"") -> None:
    """A file of zeros, which takes no space, and what stands behind them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.truncate(size)
        file.seek(size)
        file.write(end)


@pytest.fixture
def bounded() -> Iterator[None]:
    """The test takes less than 128 MiB of this process."""
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = peak_bytes()
    yield
    assert peak_bytes() - before < 128 << 20


@pytest.mark.parametrize("kind", ["chunks", "shards"])
def test_small_chunks_that_are_stored_as_megabytes_are_not_brought_together(
    kind: str, tmp_path: Path, bounded: None
) -> None:
    count, stored_bytes = 32, 8 << 20
    in_shards = kind == "shards"
    document = sharded((count,), (1,), (1,)) if in_shards else array((count,), (1,))
    write_keys(tmp_path, {"a/zarr.json": document})
    index = np.array([0, stored_bytes], "<u8").tobytes() if in_shards else b""
    for number in range(count - 1):
        sparse(tmp_path / f"a/c/{number}", stored_bytes, index)
    good = b"\7" + np.array([0, 1], "<u8").tobytes() if in_shards else b"\7"
    (tmp_path / f"a/c/{count - 1}").write_bytes(good)
    with opened(images(LocalStore(str(tmp_path))), "a/a.npy") as reader:
        with pytest.raises(Corrupt, match=r"^a: chunk c/0: "):
            read_range(reader, reader.size - count, count)
        assert read_range(reader, reader.size - 1, 1) == b"\7"


@pytest.mark.parametrize("length", [1 << 26, 1 << 62])
def test_an_array_whose_shards_have_a_huge_index_is_refused(length: int, tmp_path: Path) -> None:
    write_keys(tmp_path, {"a/zarr.json": sharded((length,), (length,), (1,)), "a/c/0": bytes(100)})
    with pytest.raises(NotSupported, match=f"^a: the index of a shard has {16 * length} bytes"):
        images(LocalStore(str(tmp_path))).child("a").open("a.npy")


def test_large_indexes_are_not_brought_together(tmp_path: Path, bounded: None) -> None:
    count, length = 16, 1 << 20
    write_keys(tmp_path, {"zarr.json": sharded((count, length), (1, length), (1, 1))})
    entries = np.full((2, 2), -1, "<i8")
    entries[-1] = 0, 1
    for number in range(count):
        sparse(tmp_path / f"c/{number}/0", 16 * length, b"\xff" * 16)
    view = ChunksView(LocalStore(str(tmp_path)), 0)
    loaded = view.root.loaded()
    assert loaded is not None
    decoder = Decoder(view, ByteCache(1 << 20))
    try:
        found = decoder.array(ArrayFiles(view, view.root, loaded)).read(
            (slice(0, count), slice(length - 1, length))
        )
        assert not found.any()
    finally:
        decoder.close()


def test_attributes_may_be_larger_than_chunks(tmp_path: Path) -> None:
    attributes = {"note": "x" * (9 << 20)}
    made = zarr.create_array(tmp_path / "a", shape=(4,), dtype="u1", attributes=attributes)
    made[...] = values = np.arange(1, 5, dtype="u1")
    assert values.tobytes() in content_of(images(LocalStore(str(tmp_path))), "a/a.npy")


def test_a_good_chunk_is_read_after_any_number_of_broken_ones(tmp_path: Path) -> None:
    broken_bytes, count = 8 << 20, 40
    good: dict[str, Any] = {"good/zarr.json": array((4,), (4,)), "good/c/0": b"good"}
    write_keys(tmp_path, {"a/zarr.json": array((count * broken_bytes,), (broken_bytes,)), **good})
    for number in range(count):
        sparse(tmp_path / f"a/c/{number}", broken_bytes + 1)
    root = images(LocalStore(str(tmp_path)))
    for number in range(count):
        with opened(root, f"a/c/{number}.tiff") as reader, pytest.raises(Corrupt, match="reshape"):
            read_range(reader, reader.size - 1, 1)
    assert b"good" in content_of(root, "good/c/0.tiff")


def test_elements_of_megabytes_are_refused(tmp_path: Path) -> None:
    document = {
        "zarr_format": 2,
        "shape": [4],
        "chunks": [1],
        "dtype": "|S300000000",
        "order": "C",
        "filters": None,
        "compressor": None,
        "fill_value": "",
    }
    write_keys(tmp_path, {"a/.zarray": json.dumps(document).encode()})
    with pytest.raises(NotSupported, match=r"^a: an element has 300000000 bytes, more than"):
        images(LocalStore(str(tmp_path))).child("a").open("a.npy")
