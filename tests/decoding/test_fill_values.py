"""Whether a chunk holds nothing but the fill value, of whatever type and however it is encoded."""

import gzip
import json
import math
import os
import signal
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from builders.documents import array
from builders.processes import peak_bytes
from zarr.codecs import BloscCodec, Crc32cCodec, GzipCodec, TransposeCodec, ZstdCodec
from zarr.codecs.numcodecs import Fletcher32
from zarr.core.buffer import Buffer
from zarr.storage import MemoryStore

from zarrfuse.decoding.fill_values import is_fill
from zarrfuse.decoding.workers import WORKERS
from zarrfuse.spec.node import ArrayNode
from zarrfuse.spec.node_v3 import parse_v3

Chunk = tuple[ArrayNode, bytes]

ENCODINGS: list[dict[str, Any]] = [
    {"compressors": None},
    {"compressors": [ZstdCodec()]},
    {"compressors": [GzipCodec(), Crc32cCodec()]},
    {"compressors": [BloscCodec()]},
    {"compressors": [Fletcher32()]},  # with an empty configuration
    {"chunks": (2, 3), "shards": (4, 6)},
    {"filters": [TransposeCodec(order=(1, 0))]},
]
FILLED: list[tuple[Any, Any, str]] = [
    (0, 1, "uint8"),
    (7, 0, ">u2"),
    (True, False, "bool"),
    (math.nan, 1.0, "float32"),
    (-0.0, 0.0, "float64"),
    (0.0, -0.0, "float64"),
    (math.inf, -math.inf, "float16"),
    (complex(0, math.nan), 0, "complex64"),
    ("x", "y", "U4"),
    (np.datetime64("NaT", "s"), np.datetime64(1, "s"), "M8[s]"),
]


def chunk(values: Any, fill_value: Any, dtype: Any, **options: Any) -> Chunk:
    """The first chunk, or shard, of a small array as zarr-python writes it, empty or not."""
    stored: dict[str, Buffer] = {}
    with warnings.catch_warnings():  # that other programs may not know all of these types
        warnings.simplefilter("ignore")
        made = zarr.create_array(
            MemoryStore(stored),
            dtype=dtype,
            fill_value=fill_value,
            config={"write_empty_chunks": True},
            **{"shape": (5, 7), "chunks": (4, 6), **options},
        )
        made[...] = values
    node = parse_v3(stored["zarr.json"].to_bytes())
    assert isinstance(node, ArrayNode)
    return node, stored[node.chunk_key((0,) * node.ndim)].to_bytes()


@pytest.mark.parametrize("options", ENCODINGS)
@pytest.mark.parametrize(("fill_value", "other", "dtype"), FILLED)
def test_only_the_fill_value_is_empty(
    fill_value: Any, other: Any, dtype: str, options: dict[str, Any]
) -> None:
    assert is_fill(*chunk(fill_value, fill_value, dtype, **options))
    assert not is_fill(*chunk(other, fill_value, dtype, **options))


def test_one_other_element_is_enough() -> None:
    values = np.zeros((5, 7), "uint16")
    values[3, 5] = 1
    assert not is_fill(*chunk(values, 0, "uint16"))


def test_another_nan_is_not_the_fill_value() -> None:
    other = np.frombuffer(b"\x01\x00\xc0\x7f", "float32")[0]
    assert np.isnan(other)
    assert not is_fill(*chunk(other, math.nan, "float32"))


def test_strings_of_any_length() -> None:
    assert is_fill(*chunk("x", "x", str))
    assert not is_fill(*chunk("y", "x", str))


def test_the_chunk_of_a_scalar() -> None:
    assert is_fill(*chunk(3, 3, "int8", shape=(), chunks=()))
    assert not is_fill(*chunk(4, 3, "int8", shape=(), chunks=()))


@pytest.mark.parametrize("damage", [b"", b"\x00" * 7, b"no zstd"])
def test_what_cannot_be_decoded_is_not_empty(damage: bytes) -> None:
    node, _ = chunk(0, 0, "uint8")
    assert not is_fill(node, damage)


def test_a_codec_that_nobody_knows_empties_nothing() -> None:
    node = parse_v3(array(codecs=[{"name": "bytes"}, {"name": "example.unknown"}]))
    assert isinstance(node, ArrayNode)
    assert not is_fill(node, bytes(4))


def test_an_array_without_a_fill_value_has_no_empty_chunks() -> None:
    document = json.loads(array())
    del document["fill_value"]
    node = parse_v3(json.dumps(document).encode())
    assert isinstance(node, ArrayNode)
    assert not is_fill(node, bytes(4))


def test_a_chunk_of_very_many_bytes_is_not_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    node, data = chunk(0, 0, "uint8")
    monkeypatch.setattr("zarrfuse.decoding.fill_values._MOST_BYTES", 24)
    assert is_fill(node, data)
    monkeypatch.setattr("zarrfuse.decoding.fill_values._MOST_BYTES", 23)
    assert not is_fill(node, data)


def test_a_bomb_is_not_empty_and_takes_no_memory_of_this_process() -> None:
    node, _ = chunk(0, 0, "uint8", compressors=[GzipCodec()])
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = peak_bytes()
    assert not is_fill(node, gzip.compress(bytes(8 << 20)) * 64)
    assert peak_bytes() - before < 100 << 20


def test_a_forked_child_judges_though_all_processes_of_its_parent_are_at_work() -> None:
    node, data = chunk(0, 0, "uint8")
    assert is_fill(node, data)
    at_work = [WORKERS._taken() for _ in range(2)]
    child = os.fork()
    if not child:
        try:
            signal.alarm(30)  # ends it, if it waits for them
            os._exit(0 if is_fill(node, data) else 1)
        finally:
            os._exit(2)
    status = os.waitpid(child, 0)[1]
    WORKERS._idle.extend(at_work)
    assert status == 0
    assert is_fill(node, data)
