"""What zarr-python writes has no problems, and one member broken is named alone.

zarr-python makes the arrays, their chunks and the documents; the rules judge those documents.
"""

import copy
import json
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import zarr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sampling import examples
from zarr.codecs import BloscCodec, Crc32cCodec, GzipCodec, TransposeCodec, ZstdCodec
from zarr.codecs import numcodecs as numcodecs_of_zarr
from zarr.storage import MemoryStore

from zarrfuse.spec.codecs import encoded_size, index_bytes, problems, unknown
from zarrfuse.spec.data_types import fill_value_problem, parse_data_type
from zarrfuse.spec.names import parse_extension

Json = Any
NUMBERS = ["bool", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"]
OTHERS = ["M8[ns]", "m8[10s]", "M8[Y]", "S5", "U5", "V5", [("x", "f4"), ("y", "u1")]]
VARIABLE = ["string", "variable_length_bytes"]

pytestmark = pytest.mark.filterwarnings("ignore")
written = settings(
    deadline=None,
    max_examples=examples(150),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def document_of(store: MemoryStore) -> dict[str, Json]:
    return dict(json.loads(store._store_dict["zarr.json"].to_bytes()))


def chunk_shape_of(document: dict[str, Json]) -> tuple[int, ...]:
    return tuple(document["chunk_grid"]["configuration"]["chunk_shape"])


def judged(document: dict[str, Json]) -> list[str]:
    """The members with a problem, as `codecs[1]: configuration: level` and `fill_value`."""
    data_type = parse_data_type(document["data_type"])
    codecs = [parse_extension(codec, "codecs") for codec in document["codecs"]]
    assert data_type.known
    assert list(unknown(codecs)) == []
    members = [
        f"codecs{problem.member}"
        for problem in problems(codecs, data_type, chunk_shape_of(document))
    ]
    if fill_value_problem(data_type, document["fill_value"]) is not None:
        members.append("fill_value")
    return members


@st.composite
def compressors(draw: st.DrawFn, itemsize: int) -> list[Any]:
    one = st.one_of(
        st.builds(GzipCodec, level=st.integers(0, 9)),
        st.builds(ZstdCodec, level=st.integers(-7, 22), checksum=st.booleans()),
        st.builds(
            BloscCodec,
            cname=st.sampled_from(["lz4", "lz4hc", "blosclz", "zlib", "zstd"]),
            clevel=st.integers(0, 9),
            shuffle=st.sampled_from([None, "noshuffle", "shuffle", "bitshuffle"]),
            blocksize=st.sampled_from([0, 256]),
        ),
        st.builds(Crc32cCodec),
        st.builds(numcodecs_of_zarr.Zlib, level=st.integers(0, 9)),
        st.builds(numcodecs_of_zarr.LZ4, acceleration=st.integers(1, 5)),
        st.builds(numcodecs_of_zarr.BZ2, level=st.integers(1, 9)),
        st.builds(numcodecs_of_zarr.Shuffle, elementsize=st.just(itemsize)),
        st.builds(numcodecs_of_zarr.Fletcher32),
    )
    return draw(st.lists(one, max_size=3))


@st.composite
def arrays(draw: st.DrawFn) -> MemoryStore:
    """A store with an array of any data type, chunk shape, shard shape and codecs."""
    dtype = draw(st.sampled_from([*NUMBERS, *OTHERS, *VARIABLE]))
    ndim = draw(st.integers(0, 3))
    shape = draw(st.tuples(*[st.integers(1, 9)] * ndim))
    chunks = draw(st.tuples(*[st.integers(1, 4)] * ndim))
    options: dict[str, Any] = {}
    if draw(st.booleans()):
        shards = tuple(c * draw(st.integers(1, 3)) for c in chunks)
        location = draw(st.sampled_from(["start", "end"]))
        options["shards"] = {"shape": shards, "index_location": location}
    itemsize = 1 if dtype in VARIABLE else np.dtype(dtype).itemsize
    filters: list[Any] = []
    if dtype in NUMBERS:
        order = draw(st.permutations(range(ndim)))
        filters = draw(st.sampled_from([[], [TransposeCodec(order=tuple(order))]]))
        info = np.dtype(dtype)
        value = draw(st.binary(min_size=info.itemsize, max_size=info.itemsize))
        options["fill_value"] = (
            np.frombuffer(value, info)[0] if info.kind != "b" else value > b"\x7f"
        )
        if info.kind in "iu" and ndim == 1 and draw(st.booleans()):
            filters.append(numcodecs_of_zarr.Delta(dtype=info.str))
    store = MemoryStore()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        zarr.create_array(
            store,
            shape=shape,
            chunks=chunks,
            dtype=dtype if isinstance(dtype, str) else np.dtype(dtype),
            filters=filters,
            compressors=draw(compressors(itemsize)),
            **options,
        )
    return store


@written
@given(arrays())
def test_what_zarr_python_writes_has_no_problem(store: MemoryStore) -> None:
    assert judged(document_of(store)) == []


@pytest.mark.parametrize("dtype", [*NUMBERS, *OTHERS, *VARIABLE], ids=str)
def test_the_default_array_of_every_data_type_has_no_problem(dtype: Any) -> None:
    store = MemoryStore()
    zarr.create_array(
        store, shape=(4,), chunks=(2,), dtype=dtype if isinstance(dtype, str) else np.dtype(dtype)
    )
    assert judged(document_of(store)) == []


# -- sizes are those of the chunks that zarr-python writes


@pytest.mark.parametrize("dtype", [*NUMBERS, *OTHERS], ids=str)
@pytest.mark.parametrize("checksums", [0, 1, 2])
def test_chunks_of_fixed_size_have_that_size(dtype: Any, checksums: int) -> None:
    store = MemoryStore()
    array = zarr.create_array(
        store,
        shape=(5, 3),
        chunks=(2, 3),
        dtype=dtype if isinstance(dtype, str) else np.dtype(dtype),
        compressors=[Crc32cCodec()] * checksums,
        config={"write_empty_chunks": True},
    )
    array[...] = np.zeros((5, 3), array.dtype)
    document = document_of(store)
    codecs = [parse_extension(codec, "codecs") for codec in document["codecs"]]
    size = encoded_size(codecs, parse_data_type(document["data_type"]), (2, 3))
    chunks = {len(value) for key, value in store._store_dict.items() if key.startswith("c/")}
    assert chunks == {size}


@pytest.mark.parametrize("checksums", [0, 1])
def test_a_shard_is_its_inner_chunks_and_its_index(checksums: int) -> None:
    store = MemoryStore()
    array = zarr.create_array(
        store,
        shape=(8, 6),
        chunks=(2, 3),
        shards=(8, 6),
        dtype="uint16",
        compressors=[Crc32cCodec()] * checksums,
    )
    array[...] = np.arange(1, 49).reshape(8, 6)
    [codec] = document_of(store)["codecs"]
    extension = parse_extension(codec, "codecs")
    inner = [parse_extension(value, "codecs") for value in codec["configuration"]["codecs"]]
    chunk = encoded_size(inner, parse_data_type("uint16"), (2, 3))
    index = index_bytes(extension, (8, 6))
    assert (chunk, index) == (12 + 4 * checksums, 8 * 16 + 4)
    assert len(store._store_dict["c/0/0"]) == 8 * chunk + index


# -- one member broken

Broken = tuple[dict[str, Json], str]


def with_codecs(document: dict[str, Json], path: list[Any], codecs: Json) -> dict[str, Json]:
    """A copy of `document` with the chain at `path` replaced."""
    document = copy.deepcopy(document)
    place = document
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = codecs
    return document


def breakages(document: dict[str, Json]) -> Iterator[Broken]:
    """(a document with one member broken, that member) for every member that can be."""
    yield from broken_chains(document, ["codecs"], "codecs")
    if "fields" not in json.dumps(document["data_type"]):  # those of records are not judged
        for wrong in ({}, [[]]):
            yield {**copy.deepcopy(document), "fill_value": wrong}, "fill_value"


def broken_chains(document: dict[str, Json], path: list[Any], member: str) -> Iterator[Broken]:
    chain: Json = document
    for step in path:
        chain = chain[step]
    kinds = ["bytes", "vlen-utf8", "vlen-bytes", "sharding_indexed"]
    [maker] = [place for place, codec in enumerate(chain) if codec["name"] in kinds]
    without_maker = chain[:maker] + chain[maker + 1 :]
    yield with_codecs(document, path, without_maker), member
    twice = [*chain[: maker + 1], {"name": "packbits"}, *chain[maker + 1 :]]
    yield with_codecs(document, path, twice), f"{member}[{maker + 1}]"
    early = [{"name": "crc32c"}, *chain]
    yield with_codecs(document, path, early), f"{member}[0]"
    late = [*chain, {"name": "bitround", "configuration": {"keepbits": 3}}]
    yield with_codecs(document, path, late), f"{member}[{len(chain)}]"
    if member.endswith("index_codecs"):
        varying = [*chain, {"name": "gzip", "configuration": {"level": 1}}]
        yield with_codecs(document, path, varying), f"{member}[{len(chain)}]"
    typed = all(codec["name"] == "transpose" for codec in chain[:maker])
    for place, codec in enumerate(chain):
        where = f"{member}[{place}]: configuration"
        for configuration, name in broken_configurations(codec, typed):
            broken = {**codec, "configuration": configuration}
            yield with_codecs(document, [*path, place], broken), f"{where}: {name}"
        if codec["name"] == "sharding_indexed":
            for name in ("codecs", "index_codecs"):
                below = [*path, place, "configuration", name]
                yield from broken_chains(document, below, f"{where}: {name}")
                yield with_codecs(document, below, "bytes"), f"{where}: {name}"


def broken_configurations(codec: dict[str, Json], typed: bool) -> Iterator[tuple[Json, str]]:
    """(a configuration with one member broken, that member); of `typed` the data type is known."""
    configuration = codec.get("configuration", {})
    name = codec["name"]
    if name.startswith("numcodecs."):
        return
    yield {**configuration, "pad": 0}, "'pad'"
    wrong: dict[str, list[Any]] = {
        "bytes": [("endian", "middle"), ("endian", 0)],
        "transpose": [("order", "C"), ("order", [*configuration.get("order", []), 7])],
        "gzip": [("level", 10), ("level", -1), ("level", True), ("level", None)],
        "zstd": [("level", 23), ("level", 0.5), ("checksum", 0)],
        "blosc": [("cname", "LZ4"), ("clevel", 10), ("shuffle", 1), ("typesize", -1)],
        "sharding_indexed": [("chunk_shape", None), ("index_location", "END")],
    }
    for member, value in wrong.get(name, []):
        yield {**configuration, member: value}, member
    required: dict[str, list[str]] = {
        "bytes": ["endian"] if typed else [],
        "transpose": ["order"],
        "gzip": ["level"],
        "zstd": ["level"],
        "blosc": ["cname", "clevel", "shuffle", "blocksize"],
        "sharding_indexed": ["chunk_shape", "codecs", "index_codecs"],
    }
    if name == "blosc" and configuration["shuffle"] != "noshuffle":
        required["blosc"] = [*required["blosc"], "typesize"]
    for member in required.get(name, []):
        if member in configuration:
            yield {k: v for k, v in configuration.items() if k != member}, member
    if name == "sharding_indexed":
        lengths = configuration["chunk_shape"]
        yield {**configuration, "chunk_shape": [*lengths, 1]}, "chunk_shape"
        for axis in range(len(lengths)):
            for value in (0, 10**9, 1.0):
                changed = [*lengths[:axis], value, *lengths[axis + 1 :]]
                yield {**configuration, "chunk_shape": changed}, f"chunk_shape[{axis}]"


@settings(written, max_examples=examples(60))
@given(arrays())
def test_one_member_broken_is_named_and_no_other(store: MemoryStore) -> None:
    cases = list(breakages(document_of(store)))
    assert len(cases) > 5
    for broken, member in cases:
        assert judged(broken) == [member], json.dumps(broken)
