"""The bytes of chunks: read once in blocks, whatever their size, and any changed bit is told of."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from builders.documents import array, concat_parts, extension
from builders.fake_stores import ForwardingStore, MemoryStore
from builders.folders import write_keys
from corpus import LITTLE, crc, sharding
from hypothesis import given, settings
from hypothesis import strategies as st
from sampling import examples
from zarr.codecs import BytesCodec, Crc32cCodec, ShardingCodec

from zarrfuse.check import blocks, deep
from zarrfuse.check.findings import Finding
from zarrfuse.check.survey import Survey
from zarrfuse.stores.opening import open_store


def found_in(files: dict[str, bytes], block_bytes: int = blocks.BLOCK_BYTES) -> list[Finding]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deep, "BLOCK_BYTES", block_bytes)
        return list(Survey(MemoryStore(files)).findings(deep=True))


def shards(tmp_path: Path, location: Any, outer: bool) -> dict[str, bytes]:
    """An array that zarr-python wrote: shards of checked chunks, some of them empty."""
    inner = ShardingCodec(chunk_shape=(2, 2), codecs=[BytesCodec(), Crc32cCodec()])
    shard = ShardingCodec(chunk_shape=(4, 4), codecs=[inner], index_location=location)
    written = zarr.create_array(
        tmp_path,
        shape=(16, 8),
        chunks=(8, 8),
        dtype="uint16",
        fill_value=0,
        serializer=shard,
        compressors=[Crc32cCodec()] if outer else None,
        overwrite=True,
    )
    written[1:7, 3:] = np.arange(30).reshape(6, 5)
    return {
        str(path.relative_to(tmp_path)): path.read_bytes()
        for path in tmp_path.rglob("*")
        if path.is_file()
    }


@pytest.mark.filterwarnings("ignore:Combining")
@pytest.mark.parametrize("location", ["start", "end"])
@pytest.mark.parametrize("outer", [False, True])
def test_any_changed_bit_of_a_checked_shard_is_told_of(
    tmp_path: Path, location: str, outer: bool
) -> None:
    files = shards(tmp_path, location, outer)
    [key] = [key for key in files if key.startswith("c/")]

    @settings(max_examples=examples(150), deadline=None)
    @given(st.integers(0, len(files[key]) * 8 - 1), st.integers(1, 600))
    def change(bit: int, block_bytes: int) -> None:
        assert found_in(files, block_bytes) == []
        damaged = bytearray(files[key])
        damaged[bit // 8] ^= 1 << bit % 8
        found = found_in({**files, key: bytes(damaged)}, block_bytes)
        assert {finding.path for finding in found} == {key}

    change()


@settings(max_examples=examples(200), deadline=None)
@given(st.binary(min_size=1, max_size=300), st.integers(1, 64), st.data())
def test_a_checksum_holds_over_parts_and_blocks(
    content: bytes, block_bytes: int, data: st.DataObject
) -> None:
    whole = content + crc(content)
    cut = data.draw(st.integers(0, len(whole)))
    document = array(
        codecs=["bytes", extension("zstd", level=1), "crc32c"],
        transformers=[concat_parts(("", cut), ".rest")],
    )
    files = {"zarr.json": document, "c/0/0": whole[:cut], "c/0/0.rest": whole[cut:]}
    assert found_in(files, block_bytes) == []
    changed = bytes([whole[0] ^ 1]) + whole[1:]
    files |= {"c/0/0": changed[:cut], "c/0/0.rest": changed[cut:]}
    assert [finding.member for finding in found_in(files, block_bytes)] == [""]


def test_a_chunk_of_many_parts_is_read_without_holding_them_open() -> None:
    class Store(ForwardingStore):
        held = 0
        most = 0

        def before(self, method: str, key: str, wait: bool) -> None:
            self.held += {"open": 1, "close": -1}.get(method, 0)
            self.most = max(self.most, self.held)

    parts = [(f".{number:03}", 1) for number in range(100)]
    content = bytes(range(96))
    document = array(
        codecs=["bytes", extension("gzip", level=1), "crc32c"], transformers=[concat_parts(*parts)]
    )
    whole = content + crc(content)
    pieces = {f"c/0/0.{n:03}": whole[n : n + 1] for n in range(100)}
    store = Store(MemoryStore({"zarr.json": document, **pieces}))
    assert list(Survey(store).findings(deep=True)) == []
    assert store.most < 20
    assert store.held == 0


def test_each_byte_is_read_once_where_a_shard_has_no_checksum_of_its_own() -> None:
    class Store(ForwardingStore):
        reads = 0

        def before(self, method: str, key: str, wait: bool) -> None:
            self.reads += method == "readinto" and key == "c/0/0"

    inner = b"1" + crc(b"1")
    pairs = b"".join(n.to_bytes(8, "little") for at in range(4) for n in (at * 5, 5))
    document = array(codecs=[sharding(codecs=["bytes", "crc32c"])])
    files = {"zarr.json": document, "c/0/0": inner * 4 + pairs + crc(pairs)}
    store = Store(MemoryStore(files))
    survey = Survey(store)
    assert list(survey.findings(deep=True)) == []
    assert store.reads == 1
    assert survey.bytes_read == survey.chunk_bytes == len(files["c/0/0"])


def test_inner_chunks_that_are_the_same_bytes_are_fine() -> None:
    pairs = b"".join(n.to_bytes(8, "little") for _ in range(4) for n in (0, 1))
    files = {"zarr.json": array(codecs=[sharding()]), "c/0/0": b"1" + pairs + crc(pairs)}
    assert found_in(files) == []


def test_inner_chunks_that_share_bytes_are_not_verified_again_and_again(tmp_path: Path) -> None:
    """20,000 times 64 MiB from a file that holds them once."""
    count, size = 20_000, 64 << 20
    index = np.zeros((count, 2), "<u8")
    index[:, 1] = size - np.arange(count)
    inner = [extension("gzip", level=1), "crc32c"]
    shards = sharding(chunk_shape=[1], codecs=["bytes", *inner], index_codecs=[LITTLE])
    write_keys(tmp_path, {"zarr.json": array((count,), (count,), codecs=[shards]), "c/0": b""})
    with (tmp_path / "c/0").open("wb") as chunk:
        chunk.seek(size)
        chunk.write(index.tobytes())
    survey = Survey(open_store(str(tmp_path)))
    levels = [finding.level for finding in survey.findings(deep=True)]
    assert levels.count("warning") == count - 1
    assert survey.bytes_read == survey.chunk_bytes


def test_an_index_of_another_byte_order_is_read() -> None:
    pairs = b"".join(n.to_bytes(8, "big") for at in range(4) for n in (at, 1))
    index_codecs = [extension("bytes", endian="big")]
    document = array(codecs=[sharding(index_codecs=index_codecs)])
    assert found_in({"zarr.json": document, "c/0/0": b"1234" + pairs}) == []
    wrong = array(codecs=[sharding(index_codecs=[LITTLE])])
    assert len(found_in({"zarr.json": wrong, "c/0/0": b"1234" + pairs})) == 4


def test_an_index_too_large_to_be_read_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deep, "LARGEST_INDEX", 63)
    pairs = b"".join(n.to_bytes(8, "little") for _ in range(4) for n in (0, 1))
    files = {"zarr.json": array(codecs=[sharding()]), "c/0/0": b"1" + pairs + crc(pairs)}
    [finding] = found_in(files)
    assert (finding.level, finding.member) == ("warning", "shard index")
    assert "has 68 bytes, more than the 63" in finding.problem


def test_a_large_chunk_takes_no_more_memory_than_a_small_one(tmp_path: Path) -> None:
    """A sparse file of 1 GiB; a checksum of zeros, which is not theirs."""
    side = 1 << 15
    document = array((side, side), (side, side), codecs=["bytes", "crc32c"])
    write_keys(tmp_path, {"zarr.json": document, "c/0/0": b""})
    with (tmp_path / "c/0/0").open("wb") as chunk:
        chunk.truncate(side * side + 4)
    program = (
        "import json, re, sys\n"
        "from zarrfuse.check import findings\n"
        "found = [finding.problem for finding in findings(sys.argv[1], deep=True)]\n"
        "peak = re.search(r'VmHWM:\\s*([0-9]+) kB', open('/proc/self/status').read())\n"
        "print(json.dumps([found, int(peak[1])]))\n"  # ru_maxrss begins with that of this process
    )
    done = subprocess.run(
        [sys.executable, "-c", program, tmp_path], capture_output=True, check=True, timeout=60
    )
    found, most_kib = json.loads(done.stdout)
    assert len(found) == 1
    assert most_kib < 200 * 1024
