"""Compressed bytes that were changed at random are decoded, or are an error: nothing worse comes of it.

Some sixty changes are tried for each codec, or ten thousand with `--thorough`. The
seed is in the message of what fails.
"""

import random
from typing import Any

import numpy as np
import pytest
import zarr
from builders.fake_stores import MemoryStore
from sampling import is_thorough
from zarr.codecs import BloscCodec
from zarr.codecs import numcodecs as of_numcodecs

from zarrfuse.errors import Corrupt
from zarrfuse.stores.cache import ByteCache
from zarrfuse.views.chunks.view import ChunksView
from zarrfuse.views.images.decode import Decoder
from zarrfuse.views.images.stored_bytes import ArrayFiles

COUNT = 10_000 if is_thorough() else 60
TOGETHER = 10
"""Chunks of one array: of each all are read, and one that fails is read alone."""
SIZE = 512

CODECS: dict[str, dict[str, Any]] = {
    f"blosc of {cname}": {"compressors": [BloscCodec(cname=cname, typesize=4, shuffle=shuffle)]}
    for cname, shuffle in (
        ("lz4", "shuffle"),
        ("lz4hc", "noshuffle"),
        ("blosclz", "bitshuffle"),
        ("zstd", "shuffle"),
        ("zlib", "noshuffle"),
    )
}
CODECS["lz4"] = {"compressors": [of_numcodecs.LZ4()]}
try:
    import zfpy  # noqa: F401
except ImportError:
    pass
else:
    CODECS["zfp"] = {"serializer": of_numcodecs.ZFPY(mode=4, tolerance=0.01), "compressors": None}


def mutated(chunk: bytes, chance: random.Random) -> bytes:
    """A chunk with its header, its body or its length changed."""
    data = bytearray(chunk)
    for _ in range(chance.choice((1, 1, 2, 8))):
        at = chance.randrange(min(len(data), 16) if chance.random() < 0.6 else len(data))
        data[at] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
    match chance.randrange(6):
        case 0:
            del data[chance.randrange(len(data)) :]
        case 1:
            data += chance.randbytes(chance.randrange(64))
    return bytes(data)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", CODECS)
def test_mutated_chunks_are_decoded_or_corrupt(name: str) -> None:
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    values = np.random.default_rng(seed).integers(0, 9, SIZE).astype("<f4")
    stored = zarr.storage.MemoryStore()
    shape = (SIZE * TOGETHER,)
    made = zarr.create_array(
        stored, name="a", shape=shape, chunks=(SIZE,), dtype="f4", **CODECS[name]
    )
    made[:SIZE] = values
    keys = {key: value.to_bytes() for key, value in stored._store_dict.items()}
    good = keys["a/c/0"]
    outcomes = set()
    for _ in range(COUNT // TOGETHER):
        chunks = {f"a/c/{number}": mutated(good, chance) for number in range(TOGETHER)}
        chunks["a/c/0"] = good
        view = ChunksView(MemoryStore({"a/zarr.json": keys["a/zarr.json"], **chunks}), 60)
        folder = view.root.child("a")
        loaded = folder.loaded()
        assert loaded is not None
        decoder = Decoder(view, ByteCache(0))
        array = decoder.array(ArrayFiles(view, folder, loaded))
        for number in range(TOGETHER):
            try:
                found = array.read((slice(number * SIZE, (number + 1) * SIZE),))
            except Corrupt as error:
                assert f"chunk c/{number}: cannot be decoded" in str(error), seed
                outcomes.add("corrupt")
            else:
                assert len(found) == SIZE, seed
                outcomes.add("decoded")
                assert number or (found == values).all(), seed
        decoder.close()
    assert outcomes == {"corrupt", "decoded"}
