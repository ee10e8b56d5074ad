"""Random valid metadata of Zarr v3, and one member of it made wrong.

`broken` says where the fault is: as a path, the way `check` spells it.
"""

import json
from collections.abc import Callable
from typing import Any

from builders.documents import extension
from hypothesis import strategies as st

Document = dict[str, Any]
Draw = Callable[[st.SearchStrategy[Any]], Any]

INTEGERS = {f"{sign}int{bits}": (sign, bits) for sign in ("", "u") for bits in (8, 16, 32, 64)}
FLOATS = {"float16": 4, "float32": 8, "float64": 16}
TYPES = ["bool", *INTEGERS, *FLOATS, "complex64", "complex128", "r8", "r24"]
ONE_BYTE = ("bool", "int8", "uint8", "r8", "r24")

values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2)
    ),
    max_leaves=4,
)


@st.composite
def fill_values(draw: Draw, data_type: str) -> Any:
    """A fill value of a core data type."""
    if data_type == "bool":
        return draw(st.booleans())
    if data_type in INTEGERS:
        sign, bits = INTEGERS[data_type]
        low, high = (0, 2**bits - 1) if sign else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        return draw(st.integers(low, high))
    if data_type in FLOATS:
        digits = FLOATS[data_type]
        named = st.sampled_from(["NaN", "Infinity", "-Infinity", "0x" + "7" * digits])
        return draw(named | st.integers(-9, 9) | st.floats(-9, 9))
    if data_type.startswith("complex"):
        part = fill_values("float32" if data_type == "complex64" else "float64")
        return [draw(part), draw(part)]
    return [draw(st.integers(0, 255)) for _ in range(int(data_type[1:]) // 8)]


def encodings() -> st.SearchStrategy[Document]:
    """Chunk key encodings, in both spellings and in one another."""
    plain = st.one_of(
        st.sampled_from(["default", "v2", {"name": "default"}, extension("v2")]),
        st.builds(
            lambda name, separator: extension(name, separator=separator),
            st.sampled_from(["default", "v2"]),
            st.sampled_from("/."),
        ),
    )
    suffixes = st.sampled_from([".tiff", ".x", "-b", ".d/x"])
    return st.recursive(
        plain,
        lambda base: st.builds(
            lambda suffix, base, spelling: extension("suffix", suffix=suffix, **{spelling: base}),
            suffixes,
            base,
            st.sampled_from(["base_encoding", "base-encoding"]),
        ),
        max_leaves=3,
    )


@st.composite
def chains(draw: Draw, data_type: str, chunk_shape: list[int], depth: int = 0) -> list[Any]:
    """A chain of codecs for chunks of this shape."""
    chain: list[Any] = []
    if draw(st.booleans()):
        order = draw(st.permutations(range(len(chunk_shape))))
        chain.append(extension("transpose", order=order))
        chunk_shape = [chunk_shape[dimension] for dimension in order]
    if depth < 2 and chunk_shape and draw(st.booleans()):
        inner = [
            draw(st.sampled_from([n for n in range(1, c + 1) if c % n == 0])) for c in chunk_shape
        ]
        index = [extension("bytes", endian=draw(st.sampled_from(["little", "big"])))]
        shard = extension(
            "sharding_indexed",
            chunk_shape=inner,
            codecs=draw(chains(data_type, inner, depth + 1)),
            index_codecs=[*index, *draw(st.sampled_from([[], ["crc32c"]]))],
        )
        if draw(st.booleans()):
            shard["configuration"]["index_location"] = draw(st.sampled_from(["start", "end"]))
        chain.append(shard)
    elif data_type in ONE_BYTE and draw(st.booleans()):
        chain.append("bytes")
    elif not data_type.startswith("r") and draw(st.booleans()):
        chain.append(extension("packbits"))
    else:
        chain.append(extension("bytes", endian=draw(st.sampled_from(["little", "big"]))))
    compressors = [
        "crc32c",
        extension("gzip", level=draw(st.integers(0, 9))),
        extension("zstd", level=draw(st.integers(-5, 22)), checksum=draw(st.booleans())),
        extension("blosc", cname="lz4", clevel=5, shuffle="noshuffle", blocksize=0),
    ]
    return [*chain, *draw(st.lists(st.sampled_from(compressors), max_size=2))]


@st.composite
def transformers(draw: Draw) -> list[Any]:
    """Storage transformers that no two keys come of."""
    found = []
    for level in range(draw(st.integers(0, 2))):
        parts: list[Document] = [{"key_suffix": ""}]
        parts += [
            {"key_suffix": f".p{level}{index}", "size": draw(st.integers(0, 9))}
            for index in range(draw(st.integers(0, 2)))
        ]
        found.append(extension("concat-parts", parts=draw(st.permutations(parts))))
    # A part that has a size cannot fall into more than that.
    return found[:1] if len(found) == 2 and len(found[0]["configuration"]["parts"]) > 1 else found


def statistics() -> Document:
    return extension("example.array-statistics", min=-1, max=2.5) | {"must_understand": False}


@st.composite
def arrays(draw: Draw) -> Document:
    """The document of an array with which nothing is wrong."""
    ndim = draw(st.integers(0, 4))
    data_type = draw(st.sampled_from(TYPES))
    chunk_shape = [draw(st.integers(1, 12)) for _ in range(ndim)]
    document: Document = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [draw(st.integers(0, 1000)) for _ in range(ndim)],
        "data_type": draw(st.sampled_from([data_type, {"name": data_type}])),
        "chunk_grid": extension("regular", chunk_shape=chunk_shape),
        "chunk_key_encoding": draw(encodings()),
        "fill_value": draw(fill_values(data_type)),
        "codecs": draw(chains(data_type, chunk_shape)),
    }
    optional: dict[str, st.SearchStrategy[Any]] = {
        "attributes": st.dictionaries(st.text(max_size=4), values, max_size=3),
        "storage_transformers": transformers(),
        "dimension_names": st.lists(st.none() | st.text(max_size=3), min_size=ndim, max_size=ndim),
        "extensions": st.lists(
            st.sampled_from(
                [
                    extension("example.offset", offset=[-1] * ndim),
                    statistics(),
                    "example.skip_empty_chunks",
                ]
            ),
            min_size=1,
            max_size=3,
            unique_by=str,
        ),
    }
    for name, strategy in optional.items():
        if draw(st.booleans()):
            document[name] = draw(strategy)
    return document


@st.composite
def groups(draw: Draw) -> Document:
    """The document of a group with which nothing is wrong."""
    document: Document = {"zarr_format": 3, "node_type": "group"}
    if draw(st.booleans()):
        document["attributes"] = draw(st.dictionaries(st.text(max_size=4), values, max_size=3))
    return document


@st.composite
def v2_arrays(draw: Draw) -> Document:
    """A `.zarray` with which nothing is wrong."""
    shape = draw(st.lists(st.integers(0, 9), max_size=3))
    fields = [["a", "<f4"], ["b", [["c", "|u1", [2, 2]], ["d", ">M8[ns]"]]]]
    return {
        "zarr_format": 2,
        "shape": shape,
        "chunks": [draw(st.integers(1, 9)) for _ in shape],
        "dtype": draw(
            st.sampled_from(["<u2", "|b1", ">c8", "|S3", "<U2", "|O", "<m8[10s]", fields])
        ),
        "compressor": draw(st.sampled_from([None, {"id": "zlib", "level": 1}])),
        "filters": draw(st.sampled_from([None, [], [{"id": "delta", "dtype": "<u2"}]])),
        "fill_value": draw(st.sampled_from([None, 0, "AAAA"])),
        "order": draw(st.sampled_from("CF")),
        **draw(st.sampled_from([{}, {"dimension_separator": "/"}])),
    }


# -- one member made wrong

NOT_A_NAME = "Not A Name"


@st.composite
def broken(draw: Draw, documents: st.SearchStrategy[Document]) -> tuple[Document, str]:
    """(a document with one fault, the path of the member that has it)."""
    document = json.loads(json.dumps(draw(documents)))  # no object in two places
    member, change = draw(st.sampled_from(list(_faults(document))))
    change()
    return document, member


def _faults(document: Document) -> Any:
    """(path, function that makes it wrong) of each member that can be made wrong."""

    def put(holder: Any, key: Any, value: Any) -> Callable[[], None]:
        return lambda: holder.__setitem__(key, value)

    def cut(holder: Any, key: Any) -> Callable[[], None]:
        return lambda: holder.__delitem__(key)

    yield "zarr_format", put(document, "zarr_format", 2)
    yield "node_type", put(document, "node_type", 5)
    yield "'surprise'", put(document, "surprise", {"must_understand": True})
    yield "attributes", put(document, "attributes", [])
    yield "extensions", put(document, "extensions", {})
    yield "extensions[0]", put(document, "extensions", ["example.nobody.knows"])
    if document["node_type"] == "group":
        return
    for name in ("shape", "data_type", "chunk_grid", "chunk_key_encoding", "fill_value", "codecs"):
        yield name, cut(document, name)
    yield "shape", put(document, "shape", {})
    for index in range(len(document["shape"])):
        yield f"shape[{index}]", put(document["shape"], index, -1)
    yield "data_type", put(document, "data_type", NOT_A_NAME)
    yield "chunk_grid: name", put(document["chunk_grid"], "name", NOT_A_NAME)
    grid = document["chunk_grid"]["configuration"]
    yield "chunk_grid: configuration: 'more'", put(grid, "more", 1)
    yield "chunk_grid: configuration: chunk_shape", put(grid, "chunk_shape", [1] * 9)
    for index in range(len(grid["chunk_shape"])):
        path = f"chunk_grid: configuration: chunk_shape[{index}]"
        yield path, put(grid["chunk_shape"], index, -1)  # 0 is allowed where there is nothing
    yield "chunk_key_encoding: name", put(document, "chunk_key_encoding", {"name": "nobody.knows"})
    if isinstance(document["chunk_key_encoding"], dict):
        keys = document["chunk_key_encoding"].setdefault("configuration", {})
        yield "chunk_key_encoding: configuration: 'more'", put(keys, "more", 1)
    yield "fill_value", put(document, "fill_value", {"a": 1})
    yield "codecs", put(document, "codecs", "bytes")
    yield "codecs", put(document, "codecs", [])
    yield from _codec_faults(document["codecs"], "codecs", put, cut)
    for index, transformer in enumerate(document.get("storage_transformers", [])):
        path = f"storage_transformers[{index}]"
        parts = transformer["configuration"]["parts"]
        yield f"{path}: concat-parts: parts", put(transformer["configuration"], "parts", [])
        yield f"{path}: concat-parts: 'more'", put(transformer["configuration"], "more", 1)
        for place, part in enumerate(parts):
            where = f"{path}: concat-parts: parts[{place}]"
            yield f"{where}: size", put(part, "size", -1)
            yield f"{where}: key_suffix", cut(part, "key_suffix")
            yield f"{where}: 'more'", put(part, "more", 1)
        yield path, put(document["storage_transformers"], index, 3)
    yield "dimension_names", put(document, "dimension_names", ["x"] * 9)
    for index in range(len(document.get("dimension_names", []))):
        yield f"dimension_names[{index}]", put(document["dimension_names"], index, 4)
    for index, listed in enumerate(document.get("extensions", [])):
        yield f"extensions[{index}]", put(document["extensions"], index, NOT_A_NAME)
        if isinstance(listed, dict):
            path = f"extensions[{index}]: {listed['name']}: 'more'"
            yield path, put(listed["configuration"], "more", 1)


def _codec_faults(chain: list[Any], path: str, put: Any, cut: Any) -> Any:
    for index, codec in enumerate(chain):
        where = f"{path}[{index}]"
        yield where, put(chain, index, [])
        yield f"{where}: name", put(chain, index, {"name": NOT_A_NAME})
        if isinstance(codec, str):
            continue
        configuration = codec["configuration"]
        yield f"{where}: configuration: 'more'", put(configuration, "more", 1)
        if "level" in configuration:
            yield f"{where}: configuration: level", put(configuration, "level", 99)
        if codec["name"] == "transpose":
            yield f"{where}: configuration: order", cut(configuration, "order")
        if codec["name"] == "sharding_indexed":
            inner = f"{where}: configuration: "
            yield f"{inner}chunk_shape", put(configuration, "chunk_shape", [1] * 9)
            yield f"{inner}index_codecs", cut(configuration, "index_codecs")
            yield f"{inner}index_location", put(configuration, "index_location", "middle")
            yield from _codec_faults(configuration["codecs"], f"{inner}codecs", put, cut)
