"""Arrays that hypothesis picks, of any layout, are read whole and in ranges."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import pytest
import zarr
from builders.array_layouts import TIFF_TYPES, chunk_file, stored_grid
from builders.fake_stores import MemoryStore
from builders.images_view import assert_npy, assert_tiff, images
from builders.readers import read_range
from builders.views import content_of, opened
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from numcodecs import get_codec
from sampling import examples
from zarr.codecs import BloscCodec, BytesCodec, Crc32cCodec, GzipCodec, TransposeCodec, ZstdCodec
from zarr.core.buffer import Buffer


@dataclass(frozen=True)
class Picked:
    """An array, the keys of its store (it is in `a`), and ranges to read as parts of a file."""

    keys: Mapping[str, bytes]
    values: Any
    grid: Sequence[int]
    has_tiff: bool
    ranges: Sequence[tuple[float, float]]


def stored_keys(store: "zarr.storage.MemoryStore") -> dict[str, bytes]:
    """What zarr-python wrote into a store in memory."""
    held: Mapping[str, Buffer] = store._store_dict
    return {key: value.to_bytes() for key, value in held.items()}


COMPRESSORS: dict[str, list[Any]] = {
    "none": [],
    "zstd": [ZstdCodec()],
    "gzip": [GzipCodec(level=1)],
    "blosc": [BloscCodec(cname="lz4", shuffle="shuffle", typesize=1)],
    "crc32c": [Crc32cCodec()],
}


@st.composite
def picked_arrays(draw: st.DrawFn) -> Picked:
    """Small arrays of 0 to 6 dimensions and any layout, of which some chunks are stored."""
    # Lists of any length would nearly all be short.
    ndim = draw(st.sampled_from([3, 2, 4, 1, 5, 6, 0]))
    longest, shortest_chunk = (6, 1) if ndim < 4 else (3, 2)
    shortest = 1 if ndim < 6 else 2  # which of six axes become one is told by all their lengths
    shape = tuple(draw(st.integers(shortest, longest)) for _ in range(ndim))
    few = draw(st.sampled_from([False, False, True]))
    chunks = tuple(
        draw(st.integers(min(shortest_chunk, size), size + 2 if few else max(2, size // 2)))
        for size in shape
    )
    types = [*TIFF_TYPES, "int64", "uint64", "complex64", "complex128", "V3"]
    dtype = draw(st.sampled_from(types))
    stored_type = dtype
    options: dict[str, Any] = {}
    zarr_format = draw(st.sampled_from([2, 3, 3, 3]))
    if zarr_format == 2:
        compressor = draw(st.sampled_from([None, get_codec({"id": "zlib", "level": 1})]))
        options |= {"order": draw(st.sampled_from("CF")), "compressors": compressor}
        stored_type = np.dtype(dtype).newbyteorder(draw(st.sampled_from("<>"))).str
    else:
        options["compressors"] = COMPRESSORS[draw(st.sampled_from(sorted(COMPRESSORS)))] or None
        if draw(st.booleans()) and dtype != "V3":
            options["serializer"] = BytesCodec(endian="big")
        if shape and draw(st.booleans()):
            order = draw(st.permutations(range(len(shape))))
            options["filters"] = [TransposeCodec(order=order)]
        # zarr-python cannot write shards of raw bits.
        if shape and dtype != "V3" and draw(st.booleans()):
            times = [draw(st.integers(1, 3)) for _ in shape]
            shards = tuple(c * t for c, t in zip(chunks, times, strict=True))
            location = draw(st.sampled_from(["start", "end"]))
            options["shards"] = {"shape": shards, "index_location": location}
    store = zarr.storage.MemoryStore()
    made = zarr.create_array(
        store,
        name="a",
        shape=shape,
        dtype=stored_type,
        chunks=chunks,
        zarr_format=zarr_format,
        fill_value=b"abc" if dtype == "V3" else draw(st.integers(0, 1)),
        **options,
    )
    values = draw(st.binary(min_size=1, max_size=64))
    grid = [-(-size // step) for size, step in zip(shape, chunks, strict=True)]
    stored = draw(st.sampled_from(["some", "some", "some", "all", "none"]))
    count_stored = 0
    for number, at in enumerate(np.ndindex(*grid)):  # inner chunks, where there are shards
        if stored == "all" or (stored == "some" and draw(st.booleans())):
            box = tuple(
                slice(n * step, min((n + 1) * step, size))
                for n, step, size in zip(at, chunks, shape, strict=True)
            )
            count_stored += 1
            cropped = tuple(part.stop - part.start for part in box)
            count = int(np.prod(cropped, dtype=int)) * made.dtype.itemsize
            data = (values * (count // len(values) + 2))[number % len(values) :][:count]
            if dtype == "bool":
                data = bytes(byte & 1 for byte in data)
            made[box] = np.frombuffer(data, made.dtype).reshape(cropped)
    ranges = draw(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=8))
    event(f"{ndim} dimensions")
    event(f"type {stored_type}")
    event(f"format {zarr_format}, shards {'shards' in options}")
    event(f"chunks {'one' if prod(grid) == 1 else 'some' if count_stored % prod(grid) else stored}")
    has_tiff = dtype in TIFF_TYPES
    return Picked(stored_keys(store), np.asarray(made[...]), stored_grid(made), has_tiff, ranges)


@pytest.mark.filterwarnings("ignore:.*does not have a Zarr V3 specification")
@given(picked_arrays())
@settings(
    max_examples=examples(150),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.large_base_example],
)
def test_picked_arrays_are_read_whole_and_in_ranges(picked: Picked) -> None:
    root = images(MemoryStore(picked.keys), cache_bytes=200)
    expected = {"a/a.npy": assert_npy}
    if picked.has_tiff:
        expected["a/a.tiff"] = assert_tiff
    for path, check in expected.items():
        data = content_of(root, path)
        check(data, picked.values)
    files = list(expected)
    if picked.has_tiff:
        last = tuple(
            (n - 1) // step for n, step in zip(picked.values.shape, picked.grid, strict=True)
        )
        box = tuple(slice(at * step, None) for at, step in zip(last, picked.grid, strict=True))
        files.append(f"a/{chunk_file(last)}")
        assert_tiff(content_of(root, files[-1]), picked.values[box])
        if picked.values.ndim >= 2:
            files.append("a/a.png")
    for path in files:
        data = content_of(root, path)
        with opened(root, path) as reader:
            for start, part in picked.ranges:
                offset = int(start * len(data))
                size = int(part * (len(data) - offset))
                assert read_range(reader, offset, size) == data[offset : offset + size]
