"""What is stored for an array is held within bounds, whatever its sizes are said to be."""

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from datasets import array, write_keys
from reading import opened, read
from shown import images

from zarrfuse.errors import Corrupt
from zarrfuse.stores.local import LocalStore


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
    before = _peak_bytes()
    yield
    assert _peak_bytes() - before < 128 << 20


def _peak_bytes() -> int:
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found
    return int(found[1]) << 10


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
            read(reader, reader.size - count, count)
        assert read(reader, reader.size - 1, 1) == b"\7"
