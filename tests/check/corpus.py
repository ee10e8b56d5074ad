"""Broken datasets, each made by code with what `check` has to say of it.

A case is a whole store, key by key, and the findings expected: level, path, member and rule. Rules are
written out here, not taken from the code.
"""

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha1
from typing import Any

import google_crc32c
from builders.documents import (
    array,
    concat_parts,
    default_keys,
    extension,
    group,
    suffix_keys,
    v2_array,
    v2_keys,
)

CORE = "Zarr v3 core specification"
V2 = "Zarr v2 specification"
PARTS = "Concatenate Parts Storage Transformer"
SHARDING = "sharding-indexed codec"
CONFIGURATION = "Configuration parameters"
JSON = ("RFC 8259", "4. Objects")
CRC = ("crc32c codec", "Format and algorithm")
STORE = (CORE, "Abstract store interface")
STORED = (CORE, "Stored representation")
MUST_UNDERSTAND = (CORE, "must_understand")
NAMING = ("ZEP 9", "Extension naming")
VERSIONING = ("ZEP 9", "Versioning and spec evolution")
CONTEXT = ("ZEP 9", "Phase 3: Future name evolution")
PROPOSAL = ("ZEP 10", "Proposal")
PROCESSING = ("ZEP 10", "Processing")
EXAMPLES = ("ZEP 10", "Examples")
SUB_NODES = ("ZEP 10", "Application to sub-nodes")
COPY = ("zarr-python user guide", "Consolidated metadata")
GRID = (CORE, "Array metadata, chunk_grid")
KEYS = (CORE, "Array metadata, chunk_key_encoding")
SHARD = (SHARDING, "Binary shard format")

Rule = tuple[str, str]
Expected = tuple[str, str, str, Rule]
"""(level, path, member, rule)"""


@dataclass(frozen=True)
class Case:
    """A broken dataset and what is wrong with it."""

    name: str
    files: Mapping[str, bytes]
    expected: Sequence[Expected]
    deep: bool = False


CHUNKS = {f"a/c/{row}/{column}": b"1234" for row in (0, 1) for column in (0, 1)}


def member_of(name: str) -> Rule:
    return (CORE, f"Array metadata, {name}")


def of_array(name: str, member: str, rule: Rule, *, level: str = "error", **members: Any) -> Case:
    """An array `a` with one member that is wrong, and chunks that go with it as it should be."""
    files = {"zarr.json": group(), "a/zarr.json": array(**members), **CHUNKS}
    return Case(name, files, [(level, "a/zarr.json", member, rule)])


def of_document(name: str, document: bytes, *expected: tuple[str, Rule]) -> Case:
    """An array `a` with this document."""
    found = [("error", "a/zarr.json", member, rule) for member, rule in expected]
    return Case(name, {"zarr.json": group(), "a/zarr.json": document}, found)


def of_group(name: str, member: str, rule: Rule, *, level: str = "error", **members: Any) -> Case:
    """A group at the root with one member that is wrong, and arrays `a` and `b/c`."""
    files = {
        "zarr.json": group(**members),
        "a/zarr.json": array(),
        "b/zarr.json": group(),
        "b/c/zarr.json": array(),
    }
    return Case(name, files, [(level, "zarr.json", member, rule)])


def of_v2(name: str, member: str, rule: Rule, *, level: str = "error", **members: Any) -> Case:
    """An array of Zarr v2 with these members; None leaves one out."""
    document = {**json.loads(v2_array()), **members}
    document = {key: value for key, value in document.items() if value is not ABSENT}
    files = {".zgroup": b'{"zarr_format": 2}', "a/.zarray": json.dumps(document).encode()}
    return Case(name, files, [(level, "a/.zarray", member, rule)])


def of_files(
    name: str, document: bytes, files: Mapping[str, bytes], *expected: Expected, deep: bool = False
) -> Case:
    """An array `a` with these files beside its document."""
    stored = {"a/zarr.json": document, **{f"a/{key}": data for key, data in files.items()}}
    return Case(name, {"zarr.json": group(), **stored}, expected, deep)


ABSENT = object()


def without(name: str, **members: Any) -> bytes:
    """An array's document without one member."""
    document = json.loads(array(**members))
    del document[name]
    return json.dumps(document).encode()


def changed(**members: Any) -> bytes:
    """An array's document with other members."""
    return json.dumps({**json.loads(array()), **members}).encode()


def codecs(*chain: Any) -> dict[str, Any]:
    return {"codecs": list(chain)}


def ignorable(name: str, **configuration: Any) -> dict[str, Any]:
    """An extension that a reader need not understand."""
    return {**extension(name, **configuration), "must_understand": False}


LITTLE = extension("bytes", endian="little")


def sharding(**configuration: Any) -> dict[str, Any]:
    """A shard of 1 x 1 inner chunks, 4 of them."""
    given = {
        "chunk_shape": [1, 1],
        "codecs": ["bytes"],
        "index_codecs": [LITTLE, "crc32c"],
        **configuration,
    }
    return extension("sharding_indexed", **{k: v for k, v in given.items() if v is not ABSENT})


# -- documents

_KEYS_OF = "storage_transformers[0]: concat-parts"

DOCUMENTS = [
    of_document("empty", b"", ("", (CORE, "Metadata"))),
    of_document("not JSON", b"{", ("", (CORE, "Metadata"))),
    of_document("not UTF-8", b'{"a": "\xff"}', ("", (CORE, "Metadata"))),
    of_document("an array as document", b"[]", ("", (CORE, "Metadata"))),
    of_document(
        "nested too deeply", b'{"zarr_format": ' + b"[" * 100_000, ("", (CORE, "Metadata"))
    ),
    of_document(
        "NaN without quotes",
        array(fill_value=float("nan")),
        ("", (CORE, "Metadata")),
    ),
    Case(
        "one name twice",
        {"zarr.json": b'{"zarr_format": 3, "node_type": "group", "node_type": "group"}'},
        [("warning", "zarr.json", "'node_type'", JSON)],
    ),
    Case(
        "half a character",
        {"zarr.json": group(attributes={"label": "\ud800"})},
        [("warning", "zarr.json", "", ("RFC 8259", "8.2. Unicode Characters"))],
    ),
    of_array("a format of 2", "zarr_format", (CORE, "Metadata"), zarr_format=2),
    of_array("a format as text", "zarr_format", (CORE, "Metadata"), zarr_format="3"),
    of_document("no format", without("zarr_format"), ("zarr_format", (CORE, "Metadata"))),
    of_array("another node type", "node_type", (CORE, "Metadata"), node_type="dataset"),
    of_document("no node type", without("node_type"), ("node_type", (CORE, "Metadata"))),
    of_array("an unknown member", "'flavour'", MUST_UNDERSTAND, flavour="vanilla"),
    of_array("an unknown object", "'flavour'", MUST_UNDERSTAND, flavour={"a": 1}),
    of_array(
        "an ignored member",
        "flavour",
        MUST_UNDERSTAND,
        level="warning",
        flavour={"must_understand": False},
    ),
    of_document("no shape", without("shape"), ("shape", member_of("shape"))),
    of_document("a shape that is a number", changed(shape=4), ("shape", member_of("shape"))),
    of_array("a negative length", "shape[1]", member_of("shape"), shape=[4, -4]),
    of_array("a length with a point", "shape[0]", member_of("shape"), shape=[4.0, 4]),
    of_array("a length that is true", "shape[0]", member_of("shape"), shape=[True, 4]),
    of_document(
        "two wrong lengths",
        array(shape=["4", None]),
        ("shape[0]", member_of("shape")),
        ("shape[1]", member_of("shape")),
    ),
    of_document("no data type", without("data_type"), ("data_type", member_of("data_type"))),
    of_array("a data type by number", "data_type", ("ZEP 9", "Extension definitions"), data_type=8),
    of_array("a data type in capitals", "data_type", NAMING, data_type="UInt8"),
    of_array("raw bits that are no bytes", "data_type", member_of("data_type"), data_type="r7"),
    of_array(
        "a core type with a configuration",
        "data_type: configuration: 'a'",
        VERSIONING,
        data_type=extension("uint8", a=1),
    ),
    of_array(
        "an unknown data type",
        "data_type",
        member_of("data_type"),
        level="warning",
        data_type="uint9",
    ),
    of_array(
        "a data type that may be ignored",
        "data_type: must_understand",
        MUST_UNDERSTAND,
        data_type={"name": "uint8", "must_understand": False},
    ),
    of_document("no grid", without("chunk_grid"), ("chunk_grid", GRID)),
    of_array("another grid", "chunk_grid: name", GRID, chunk_grid="rectilinear"),
    of_array(
        "a grid without chunk shape",
        "chunk_grid: configuration: chunk_shape",
        GRID,
        chunk_grid=extension("regular"),
    ),
    of_array(
        "a chunk shape of other dimensions",
        "chunk_grid: configuration: chunk_shape",
        GRID,
        chunk_shape=[2],
    ),
    of_document(
        "chunks of no length",
        array(chunk_shape=[0, "2"]),
        ("chunk_grid: configuration: chunk_shape[0]", GRID),
        ("chunk_grid: configuration: chunk_shape[1]", GRID),
    ),
    of_array(
        "a grid with an unknown member",
        "chunk_grid: configuration: 'overlap'",
        VERSIONING,
        chunk_grid=extension("regular", chunk_shape=[2, 2], overlap=1),
    ),
    of_document(
        "no chunk key encoding",
        without("chunk_key_encoding"),
        ("chunk_key_encoding", KEYS),
    ),
    of_array("an unknown encoding", "chunk_key_encoding: name", KEYS, keys={"name": "hilbert"}),
    of_array(
        "another separator",
        "chunk_key_encoding: configuration: separator",
        KEYS,
        keys=default_keys("-"),
    ),
    of_array(
        "a suffix that is empty",
        "chunk_key_encoding: configuration: suffix",
        ("ZEP suffix chunk key encoding", "Configuration"),
        keys=suffix_keys(""),
    ),
    of_array(
        "a suffix that makes metadata keys",
        "chunk_key_encoding: configuration: suffix",
        ("ZEP suffix chunk key encoding", "Configuration"),
        keys=suffix_keys("/zarr.json"),
    ),
    of_array(
        "two base encodings",
        "chunk_key_encoding: configuration: base_encoding",
        ("ZEP suffix chunk key encoding", "Configuration"),
        keys=extension("suffix", suffix=".x", base_encoding="v2", **{"base-encoding": "v2"}),
    ),
    of_document("no fill value", without("fill_value"), ("fill_value", member_of("fill_value"))),
    of_array(
        "a fill value too large", "fill_value", (CORE, "Permitted fill values"), fill_value=256
    ),
    of_array(
        "a fill value of text", "fill_value", (CORE, "Permitted fill values"), fill_value="zero"
    ),
    of_array(
        "a fill value of null", "fill_value", (CORE, "Permitted fill values"), fill_value=None
    ),
    of_document("no codecs", without("codecs"), ("codecs", member_of("codecs"))),
    of_array("codecs as an object", "codecs", member_of("codecs"), codecs={}),
    of_array("no codec at all", "codecs", (CORE, "Codecs"), **codecs()),
    of_array(
        "none that makes bytes",
        "codecs",
        (CORE, "Codecs"),
        **codecs(extension("transpose", order=[1, 0])),
    ),
    of_array("two that make bytes", "codecs[1]", (CORE, "Codecs"), **codecs("bytes", "bytes")),
    of_array(
        "a compressor first",
        "codecs[0]",
        (CORE, "Codecs"),
        **codecs(extension("gzip", level=1), "bytes"),
    ),
    of_array(
        "a codec by number", "codecs[1]", ("ZEP 9", "Extension definitions"), **codecs("bytes", 5)
    ),
    of_array(
        "a codec without name",
        "codecs[1]: name",
        ("ZEP 9", "Extension definitions"),
        **codecs("bytes", {}),
    ),
    of_array(
        "a codec with a wrong name", "codecs[1]: name", NAMING, **codecs("bytes", {"name": "z std"})
    ),
    of_array(
        "a codec with an unknown member",
        "codecs[0]: bytes: 'level'",
        VERSIONING,
        **codecs({"name": "bytes", "level": 1}),
    ),
    of_array(
        "an unknown codec",
        "codecs[1]",
        member_of("codecs"),
        level="warning",
        **codecs("bytes", "example.brotli"),
    ),
    of_array(
        "no byte order",
        "codecs[0]: configuration: endian",
        ("bytes codec", CONFIGURATION),
        data_type="uint16",
    ),
    of_array(
        "another byte order",
        "codecs[0]: configuration: endian",
        ("bytes codec", CONFIGURATION),
        **codecs(extension("bytes", endian="middle")),
    ),
    of_array(
        "an order that is none",
        "codecs[0]: configuration: order",
        ("transpose codec", CONFIGURATION),
        **codecs(extension("transpose", order=[0, 0]), "bytes"),
    ),
    of_array(
        "a level too high",
        "codecs[1]: configuration: level",
        ("gzip codec", CONFIGURATION),
        **codecs("bytes", extension("gzip", level=10)),
    ),
    of_array(
        "a checksum with a configuration",
        "codecs[1]: configuration: 'seed'",
        ("crc32c codec", CONFIGURATION),
        **codecs("bytes", extension("crc32c", seed=1)),
    ),
    of_array(
        "inner chunks that do not fill a shard",
        "codecs[0]: configuration: chunk_shape[1]",
        (SHARDING, CONFIGURATION),
        **codecs(sharding(chunk_shape=[1, 3])),
    ),
    of_array(
        "a shard without index codecs",
        "codecs[0]: configuration: index_codecs",
        (SHARDING, CONFIGURATION),
        **codecs(sharding(index_codecs=ABSENT)),
    ),
    of_array(
        "an index that is compressed",
        "codecs[0]: configuration: index_codecs[1]",
        (SHARDING, CONFIGURATION),
        **codecs(sharding(index_codecs=[LITTLE, extension("gzip", level=1)])),
    ),
    of_array(
        "an inner codec that is wrong",
        "codecs[0]: configuration: codecs[1]: configuration: level",
        ("gzip codec", CONFIGURATION),
        **codecs(sharding(codecs=["bytes", extension("gzip", level="1")])),
    ),
    of_array(
        "an inner codec without name",
        "codecs[0]: configuration: codecs[1]: name",
        (CORE, "Extension definition"),
        **codecs(sharding(codecs=["bytes", {}])),
    ),
    of_array(
        "a zstd checksum of 1",
        "codecs[1]: configuration: checksum",
        ("zstd codec", CONFIGURATION),
        **codecs("bytes", extension("zstd", level=1, checksum=1)),
    ),
    of_array(
        "another blosc compressor",
        "codecs[1]: configuration: cname",
        ("blosc codec", CONFIGURATION),
        **codecs(
            "bytes", extension("blosc", cname="xz", clevel=1, shuffle="noshuffle", blocksize=0)
        ),
    ),
    of_array(
        "a bit that a number does not have",
        "codecs[0]: configuration: last_bit",
        ("packbits codec", CONFIGURATION),
        **codecs(extension("packbits", last_bit=8)),
    ),
    of_array(
        "packed bits of raw bytes",
        "codecs[0]",
        ("packbits codec", "Supported data types"),
        data_type="r8",
        fill_value=[0],
        **codecs("packbits"),
    ),
    of_array(
        "strings of a fixed size",
        "codecs[0]",
        ("bytes codec", "Format and algorithm"),
        data_type="string",
        fill_value="",
    ),
    of_array(
        "strings with a configuration",
        "codecs[0]: configuration: 'a'",
        ("vlen-utf8 codec", CONFIGURATION),
        data_type="string",
        fill_value="",
        **codecs(extension("vlen-utf8", a=1)),
    ),
    of_array(
        "strings of numbers",
        "codecs[0]",
        ("vlen-bytes codec", "Format and algorithm"),
        **codecs("vlen-bytes"),
    ),
    of_document(
        "a fill value of a registered type",
        array(data_type="bfloat16", fill_value="0x000", codecs=[LITTLE]),
        ("fill_value", ("bfloat16 data type", "Fill value representation")),
    ),
    of_array(
        "a member too large",
        "dimension_names",
        ("zarrfuse design", "Limits on hostile metadata"),
        dimension_names=["x" * (5 << 20), "y"],
    ),
    of_array(
        "storage transformers as an object",
        "storage_transformers",
        member_of("storage_transformers"),
        storage_transformers={},
    ),
    of_array(
        "an unknown storage transformer",
        "storage_transformers[0]: name",
        member_of("storage_transformers"),
        transformers=[extension("example.cache")],
    ),
    of_array(
        "an ignored storage transformer",
        "storage_transformers[0]",
        MUST_UNDERSTAND,
        level="warning",
        transformers=[ignorable("example.cache")],
    ),
    of_array(
        "no parts", f"{_KEYS_OF}: parts", (PARTS, "Configuration"), transformers=[concat_parts()]
    ),
    of_array(
        "parts left out",
        f"{_KEYS_OF}: parts",
        (PARTS, "Configuration"),
        transformers=[extension("concat-parts")],
    ),
    of_array(
        "a part without key suffix",
        f"{_KEYS_OF}: parts[0]: key_suffix",
        (PARTS, "Configuration"),
        transformers=[extension("concat-parts", parts=[{"size": 1}])],
    ),
    of_array(
        "a part of negative size",
        f"{_KEYS_OF}: parts[1]: size",
        (PARTS, "Configuration"),
        transformers=[concat_parts("", (".index", -1))],
    ),
    of_array(
        "two parts with one key",
        f"{_KEYS_OF}: parts: key_suffix",
        (PARTS, "Configuration"),
        transformers=[concat_parts("", "")],
    ),
    of_array(
        "a part with an unknown member",
        f"{_KEYS_OF}: parts[0]: 'offset'",
        VERSIONING,
        transformers=[extension("concat-parts", parts=[{"key_suffix": "", "offset": 1}])],
    ),
    of_array(
        "a part that is another chunk",
        "storage_transformers: parts: key_suffix",
        (PARTS, "Configuration"),
        transformers=[concat_parts("", "0")],
    ),
    of_array(
        "too few dimension names",
        "dimension_names",
        member_of("dimension_names"),
        dimension_names=["y"],
    ),
    of_array(
        "a dimension name by number",
        "dimension_names[1]",
        member_of("dimension_names"),
        dimension_names=["y", 2],
    ),
    of_array("attributes as a list", "attributes", member_of("attributes"), attributes=[]),
    Case(
        "names outside the core rule",
        {
            "zarr.json": array(
                storage_transformers=[ignorable("7zip")],
                extensions=[ignorable("x")],
            )
        },
        [
            ("warning", "zarr.json", "storage_transformers[0]", (CORE, "Extension naming")),
            ("warning", "zarr.json", "extensions[0]", (CORE, "Extension naming")),
            ("warning", "zarr.json", "storage_transformers[0]", MUST_UNDERSTAND),
            ("warning", "zarr.json", "extensions[0]", MUST_UNDERSTAND),
        ],
    ),
    of_document(
        "five faults at once",
        array(
            data_type="Byte",
            dimension_names=[1, 2],
            attributes=3,
            codecs=["bytes", extension("gzip", level=-1)],
        ),
        ("data_type", NAMING),
        ("dimension_names[0]", member_of("dimension_names")),
        ("dimension_names[1]", member_of("dimension_names")),
        ("attributes", member_of("attributes")),
        ("codecs[1]: configuration: level", ("gzip codec", CONFIGURATION)),
    ),
]

# -- extensions, contexts, references

EXTENSIONS = [
    of_group("extensions as an object", "extensions", PROPOSAL, extensions={}),
    of_group("no extension at all", "extensions", PROPOSAL, extensions=[]),
    of_group(
        "an extension without name",
        "extensions[0]: name",
        ("ZEP 9", "Extension definitions"),
        extensions=[{}],
    ),
    of_group("an unknown extension", "extensions[0]", PROCESSING, extensions=["example.unknown"]),
    of_group(
        "an ignored extension",
        "extensions[0]",
        MUST_UNDERSTAND,
        level="warning",
        extensions=[ignorable("example.unknown")],
    ),
    of_array(
        "an offset of other dimensions",
        "extensions[0]: example.offset: offset",
        EXAMPLES,
        extensions=[extension("example.offset", offset=[1])],
    ),
    of_array(
        "a minimum above the maximum",
        "extensions[1]: example.array-statistics: min",
        EXAMPLES,
        extensions=[
            extension("example.offset", offset=[0, 0]),
            extension("example.array-statistics", min=2, max=1),
        ],
    ),
    of_array(
        "an example with an unknown member",
        "extensions[0]: example.skip_empty_chunks: 'really'",
        VERSIONING,
        extensions=[extension("example.skip_empty_chunks", really=True)],
    ),
    of_group(
        "an extension of arrays at a group",
        "extensions[0]: example.offset",
        EXAMPLES,
        extensions=[extension("example.offset", offset=[1])],
    ),
    of_group(
        "a pyramid that leads nowhere",
        "extensions[0]: example.multiscale-arrays: multiscale: datasets[1]",
        EXAMPLES,
        extensions=[extension("example.multiscale-arrays", multiscale={"datasets": ["a", "a/1"]})],
    ),
    of_group(
        "a pyramid of groups",
        "extensions[0]: example.multiscale-arrays: multiscale: datasets[0]",
        EXAMPLES,
        extensions=[extension("example.multiscale-arrays", multiscale={"datasets": ["b", "b/c"]})],
    ),
    of_group(
        "a pyramid that climbs",
        "extensions[0]: example.multiscale-arrays: multiscale: datasets[0]",
        EXAMPLES,
        extensions=[extension("example.multiscale-arrays", multiscale={"datasets": ["../a"]})],
    ),
    of_group(
        "slow arrays that are not there",
        "extensions[0]: example.tiered-storage: slow-arrays[0]",
        EXAMPLES,
        extensions=[extension("example.tiered-storage", **{"slow-arrays": ["b/d", "a"]})],
    ),
    of_array(
        "a reference out of the store",
        "extensions[0]: example.offset: reference",
        SUB_NODES,
        extensions=[extension("example.offset", reference="../..")],
    ),
    of_array(
        "a reference to nothing",
        "extensions[0]: example.parent-ref: reference",
        SUB_NODES,
        extensions=[extension("example.parent-ref", reference="../b")],
    ),
    of_array(
        "an absolute reference",
        "extensions[0]: example.parent-ref: reference",
        SUB_NODES,
        extensions=[extension("example.parent-ref", reference="/b")],
    ),
    of_array(
        "a reference to itself",
        "extensions[0]: example.offset: reference",
        SUB_NODES,
        extensions=[extension("example.offset", reference="../a")],
    ),
    of_array(
        "an ignored reference",
        "extensions[0]: example.offset: reference",
        MUST_UNDERSTAND,
        level="warning",
        extensions=[ignorable("example.offset", reference="..")],
    ),
    of_array(
        "a context that is unknown",
        "@context",
        CONTEXT,
        **{"@context": "https://example.com/context"},
    ),
    of_array(
        "a context with keywords", "@context: '@base'", CONTEXT, **{"@context": {"@base": "x"}}
    ),
]

# -- Zarr v2

V2_METADATA = (V2, "Arrays, Metadata")

ZARR_V2 = [
    of_v2("v2: another format", "zarr_format", V2_METADATA, zarr_format=3),
    of_v2("v2: no shape", "shape", V2_METADATA, shape=ABSENT),
    of_v2("v2: a negative length", "shape[0]", V2_METADATA, shape=[-1, 4]),
    of_v2("v2: chunks of other dimensions", "chunks", V2_METADATA, chunks=[2]),
    of_v2("v2: no data type", "dtype", (V2, "Data type encoding"), dtype=ABSENT),
    of_v2("v2: no such data type", "dtype", (V2, "Data type encoding"), dtype="uint8"),
    of_v2("v2: no byte order", "dtype", (V2, "Data type encoding"), dtype="|u2"),
    of_v2("v2: a size of none", "dtype", (V2, "Data type encoding"), dtype="<f3"),
    of_v2("v2: a time without unit", "dtype", (V2, "Data type encoding"), dtype="<M8"),
    of_v2(
        "v2: a field of none",
        "dtype[1][1]",
        (V2, "Data type encoding"),
        dtype=[["a", "<i4"], ["b", "i4"]],
    ),
    of_v2("v2: no fill value", "fill_value", (V2, "Arrays, Metadata"), fill_value=ABSENT),
    of_v2(
        "v2: no number", "fill_value", (V2, "Fill value encoding"), dtype="<f4", fill_value="inf"
    ),
    of_v2("v2: no compressor", "compressor", V2_METADATA, compressor=ABSENT),
    of_v2("v2: a compressor without id", "compressor: id", V2_METADATA, compressor={}),
    of_v2("v2: filters as an object", "filters", V2_METADATA, filters={}),
    of_v2(
        "v2: a member with a slip of the pen",
        "'dimension_seperator'",
        V2_METADATA,
        level="warning",
        dimension_seperator=".",
    ),
    of_v2("v2: another order", "order", V2_METADATA, order="K"),
    of_v2("v2: another separator", "dimension_separator", V2_METADATA, dimension_separator="-"),
    Case(
        "v2: a group with members",
        {".zgroup": b'{"zarr_format": 2, "attributes": {}}'},
        [("warning", ".zgroup", "'attributes'", (V2, "Groups"))],
    ),
    Case(
        "v2: a group of another format",
        {".zgroup": b'{"zarr_format": 3}'},
        [("error", ".zgroup", "zarr_format", (V2, "Groups"))],
    ),
    Case(
        "v2: attributes that are a list",
        {".zgroup": b'{"zarr_format": 2}', ".zattrs": b"[]"},
        [("error", ".zattrs", "", (V2, "Attributes"))],
    ),
    Case(
        "v2: chunks that are wrong",
        {
            ".zarray": json.dumps({**json.loads(v2_array()), "compressor": None}).encode(),
            "0.0": b"1234",
            "0.1": b"123",
            "2.0": b"1234",
            "0.01": b"1234",
        },
        [
            ("error", "0.1", "", (V2, "Chunks")),
            ("warning", "2.0", "", (V2, "Chunks")),
            ("warning", "0.01", "", (V2, "Chunks")),
        ],
    ),
]

# -- consolidated metadata


def consolidated(documents: Mapping[str, bytes]) -> dict[str, Any]:
    copies = {path: json.loads(document) for path, document in documents.items()}
    return {"kind": "inline", "must_understand": False, "metadata": copies}


def of_copies(name: str, copies: Any, *expected: tuple[str, str]) -> Case:
    """A group with a copy of the metadata of its array `a`."""
    files = {"zarr.json": group(consolidated_metadata=copies), "a/zarr.json": array()}
    where = "consolidated_metadata"
    found = [(level, "zarr.json", f"{where}{member}", COPY) for level, member in expected]
    return Case(name, files, found)


def of_zmetadata(name: str, document: Any, *expected: tuple[str, str]) -> Case:
    files = {
        ".zgroup": b'{"zarr_format": 2}',
        "a/.zarray": v2_array(),
        "a/.zattrs": b'{"b": 1}',
        ".zmetadata": json.dumps(document).encode(),
    }
    found = [(level, ".zmetadata", member, COPY) for level, member in expected]
    return Case(name, files, found)


_V2_COPIES = {
    ".zgroup": {"zarr_format": 2},
    "a/.zarray": json.loads(v2_array()),
    "a/.zattrs": {"b": 1},
}

CONSOLIDATED = [
    of_copies(
        "a copy that is old",
        consolidated({"a": array(shape=(4, 6))}),
        ("error", ": metadata: a: shape"),
    ),
    of_copies(
        "a copy with other attributes",
        consolidated({"a": array(attributes={"a": 1})}),
        ("error", ": metadata: a: attributes"),
    ),
    of_copies(
        "a copy of nothing",
        consolidated({"a": array(), "b": group()}),
        ("error", ": metadata: b"),
    ),
    of_copies("no copy", consolidated({}), ("warning", ": metadata: a")),
    of_copies("copies as a list", [], ("error", "")),
    of_copies("copies of another kind", {"kind": "file", "metadata": {}}, ("error", ": kind")),
    of_copies("copies without metadata", {"kind": "inline"}, ("error", ": metadata")),
    of_zmetadata(
        "v2: a copy that is old",
        {"zarr_consolidated_format": 1, "metadata": {**_V2_COPIES, "a/.zattrs": {"b": 2}}},
        ("error", "metadata: a/.zattrs: b"),
    ),
    of_zmetadata(
        "v2: a copy of nothing",
        {"zarr_consolidated_format": 1, "metadata": {**_V2_COPIES, "b/.zgroup": {}}},
        ("error", "metadata: b/.zgroup"),
    ),
    of_zmetadata("v2: no copies", {"zarr_consolidated_format": 1}, ("error", "metadata")),
]

# -- the tree

TREE = [
    Case(
        "an array below an array",
        {"zarr.json": array(), "b/zarr.json": array()},
        [("error", "b", "", (CORE, "Concepts and terminology"))],
    ),
    Case(
        "a group among chunks",
        {"zarr.json": array(), "c/0/0": b"1234", "c/b/zarr.json": group()},
        [("error", "c/b", "", (CORE, "Concepts and terminology"))],
    ),
    Case(
        "a reserved name",
        {"zarr.json": group(), "__a/zarr.json": group()},
        [("error", "__a", "", (CORE, "Node names"))],
    ),
    Case(
        "a name of periods",
        {"zarr.json": group(), ".../zarr.json": group()},
        [("error", "...", "", (CORE, "Node names"))],
    ),
    Case(
        "metadata of both formats",
        {"zarr.json": group(), ".zgroup": b'{"zarr_format": 2}'},
        [("warning", ".zgroup", "", STORED)],
    ),
    Case(
        "a folder as document",
        {"zarr.json": group(), "a/zarr.json/b": b""},
        [("error", "a/zarr.json", "", STORED)],
    ),
]

# -- names and sizes of chunks

_TIFF = array(keys=suffix_keys(".tiff"))
_INDEXED = array(transformers=[concat_parts("", (".index", 2))])
_SHARDED = array(codecs=[sharding()])


def error(key: str, rule: Rule, member: str = "") -> Expected:
    return ("error", f"a/{key}", member, rule)


def warning(key: str, rule: Rule, member: str = "") -> Expected:
    return ("warning", f"a/{key}", member, rule)


_ENCODING = (CORE, "Chunk encoding")
_DECODING = ("ZEP suffix chunk key encoding", "Decoding")

CHUNK_FILES = [
    of_files("a chunk that is empty", array(), {"c/0/0": b""}, error("c/0/0", _ENCODING)),
    of_files(
        "a compressed chunk that is empty",
        array(codecs=["bytes", extension("gzip", level=1)]),
        {"c/0/0": b""},
        error("c/0/0", _ENCODING),
    ),
    of_files(
        "a chunk too short", array(), {"c/0/0": b"123", "c/0/1": b"1234"}, error("c/0/0", _ENCODING)
    ),
    of_files("a chunk too long", array(), {"c/1/1": b"12345"}, error("c/1/1", _ENCODING)),
    of_files(
        "no room for the checksum",
        array(codecs=["bytes", extension("gzip", level=1), "crc32c"]),
        {"c/0/0": b"123"},
        error("c/0/0", _ENCODING),
    ),
    of_files("no room for the index", _SHARDED, {"c/0/0": b"1" * 67}, error("c/0/0", SHARD)),
    of_files("a folder as chunk", array(), {"c/0/0/x": b""}, error("c/0/0", STORED)),
    of_files("a chunk outside the grid", array(), {"c/0/2": b"1234"}, warning("c/0/2", GRID)),
    of_files(
        "a folder outside the grid",
        array(),
        {"c/2/0": b"1234", "c/2/1": b"1234"},
        warning("c/2", GRID),
    ),
    of_files("a key with a leading zero", array(), {"c/01/1": b"1234"}, warning("c/01", KEYS)),
    of_files("a number with a leading zero", array(), {"c/1/01": b"1234"}, warning("c/1/01", KEYS)),
    of_files("a temporary file", array(), {"c/0/.0.tmp": b"12"}, warning("c/0/.0.tmp", KEYS)),
    of_files(
        "a chunk with a suffix", array(), {"c/0/0.tiff": b"1234"}, warning("c/0/0.tiff", KEYS)
    ),
    of_files("a chunk without suffix", _TIFF, {"c/0/0": b"1234"}, warning("c/0/0", _DECODING)),
    of_files("a chunk too deep", array(), {"c/0/x/0": b"1234"}, warning("c/0/x", KEYS)),
    of_files("a chunk not deep enough", array(), {"c/0.0": b"1234"}, warning("c/0.0", KEYS)),
    of_files("chunks under keys of v2", array(), {"0.0": b"1234"}, warning("0.0", KEYS)),
    of_files(
        "chunks in folders of v2",
        array(),
        {"0/0": b"1234", "1/0": b"1234"},
        warning("0", KEYS),
        warning("1", KEYS),
    ),
    of_files(
        "flat keys with other files between",
        array(keys=v2_keys(".")),
        {"0.0": b"1234", "0.0.bak": b"1234"},
        warning("0.0.bak", KEYS),
    ),
    of_files(
        "a scalar with too many chunks",
        array(shape=(), keys=v2_keys(".")),
        {"0": b"1", "1": b"1"},
        warning("1", KEYS),
    ),
    of_files(
        "an array without elements that has a chunk",
        array(shape=(0, 4)),
        {"c/0/0": b"1234"},
        warning("c/0", GRID),
    ),
]

_PART = "part `.index`"

PART_FILES = [
    of_files(
        "a missing part", _INDEXED, {"c/0/0": b"12"}, error("c/0/0", (PARTS, "Description"), _PART)
    ),
    of_files(
        "no main part",
        _INDEXED,
        {"c/0/0.index": b"12"},
        error("c/0/0", (PARTS, "Description"), "the main part"),
    ),
    of_files(
        "a part of the wrong size",
        _INDEXED,
        {"c/0/0": b"12", "c/0/0.index": b"123"},
        error("c/0/0", (PARTS, "Configuration"), _PART),
    ),
    of_files(
        "parts that make no chunk",
        _INDEXED,
        {"c/0/0": b"1", "c/0/0.index": b"12"},
        error("c/0/0", _ENCODING),
    ),
    of_files(
        "two parts that are wrong",
        array(transformers=[concat_parts((".a", 1), "", (".b", 1))]),
        {"c/0/0": b"12", "c/0/0.b": b""},
        error("c/0/0", (PARTS, "Description"), "part `.a`"),
        error("c/0/0", (PARTS, "Configuration"), "part `.b`"),
    ),
    of_files(
        "parts of a sum that is wrong",
        array(transformers=[concat_parts((".a", 4)), concat_parts(".x", ".y")]),
        {"c/0/0.a.x": b"12", "c/0/0.a.y": b"123"},
        error("c/0/0", (PARTS, "Configuration")),
    ),
    of_files(
        "a part outside the grid",
        _INDEXED,
        {"c/0/9.index": b"12"},
        warning("c/0/9.index", GRID),
    ),
    of_files(
        "a chunk's key that is no part",
        array(transformers=[concat_parts(".a", (".b", 2))]),
        {"c/0/0.a": b"12", "c/0/0.b": b"12", "c/0/0": b"1234"},
        warning("c/0/0", (PARTS, "Configuration")),
    ),
    of_files(
        "a part in a folder that is missing",
        array(transformers=[concat_parts(".d/a", (".d/b", 2))]),
        {"c/0/0.d/a": b"12"},
        error("c/0/0", (PARTS, "Description"), "part `.d/b`"),
    ),
    of_files(
        "a folder as part",
        _INDEXED,
        {"c/0/0": b"12", "c/0/0.index/x": b"12"},
        error("c/0/0.index", STORED),
    ),
]

# -- bytes


def crc(data: bytes) -> bytes:
    return struct.pack("<I", google_crc32c.value(data))


def index(*pairs: tuple[int, int], order: str = "<") -> bytes:
    """The index of a shard of four inner chunks; those not given are missing."""
    missing = 2**64 - 1
    filled = [*pairs, *[(missing, missing)] * (4 - len(pairs))]
    data = b"".join(struct.pack(f"{order}QQ", *pair) for pair in filled)
    return data + crc(data)


_CHECKED = array(codecs=["bytes", "crc32c"])
_CHECKED_INSIDE = array(codecs=[sharding(codecs=["bytes", "crc32c"])])
_FIRST = array(codecs=[sharding(index_location="start")])
_ZIPPED = array(codecs=[sharding(codecs=["bytes", extension("gzip", level=1)])])
_NESTED = array(
    shape=(8, 8),
    chunk_shape=(4, 4),
    codecs=[sharding(chunk_shape=[2, 2], codecs=[sharding(codecs=["bytes", "crc32c"])]), "crc32c"],
)
_MISSING = 2**64 - 1


def nested(damage: int | None) -> bytes:
    """A chunk of `_NESTED`: one inner shard with one inner chunk; the byte `damage` is changed."""
    inner = b"1" + crc(b"1")
    inner += index((0, 5))
    shard = bytearray(inner + index((0, len(inner))))
    if damage is not None:
        shard[damage] ^= 1
    return bytes(shard) + crc(bytes(shard))


def of_bytes(name: str, document: bytes, chunk: bytes, *expected: tuple[str, Rule]) -> Case:
    """An array whose chunk `c/0/0` has these bytes."""
    found = [error("c/0/0", rule, member) for member, rule in expected]
    return of_files(name, document, {"c/0/0": chunk}, *found, deep=True)


_INNER = "inner chunk [0, 0]"

BYTES = [
    of_bytes("a wrong checksum", _CHECKED, b"1234" + crc(b"1235"), ("", CRC)),
    of_bytes("a damaged chunk", _CHECKED, b"1235" + crc(b"1234"), ("", CRC)),
    of_files(
        "a wrong checksum in a part",
        array(codecs=["bytes", "crc32c"], transformers=[concat_parts("", (".crc", 4))]),
        {"c/0/0": b"1234", "c/0/0.crc": crc(b"1234"), "c/0/1": b"1234", "c/0/1.crc": b"1234"},
        error("c/0/1", CRC),
        deep=True,
    ),
    of_bytes(
        "a wrong checksum of an index",
        _SHARDED,
        b"1" + index((0, 1))[:-1] + b"x",
        ("shard index", CRC),
    ),
    of_bytes("an offset too large", _SHARDED, b"1" + index((70, 1)), (_INNER, SHARD)),
    of_bytes("a size too large", _ZIPPED, b"1" + index((0, 70)), (_INNER, SHARD)),
    of_bytes("a sum that overflows", _ZIPPED, b"1" + index((2**64 - 3, 4)), (_INNER, SHARD)),
    of_bytes(
        "inside the index", _SHARDED, b"1" + index((0, 1), (1, 1)), ("inner chunk [0, 1]", SHARD)
    ),
    of_bytes(
        "inside an index in front",
        _FIRST,
        index((68, 1), (67, 1)) + b"1",
        ("inner chunk [0, 1]", SHARD),
    ),
    of_bytes(
        "half of it missing",
        _SHARDED,
        b"1" + index((0, 1), (_MISSING, 1)),
        ("inner chunk [0, 1]", SHARD),
    ),
    of_bytes("an inner chunk of the wrong size", _SHARDED, b"12" + index((0, 2)), (_INNER, SHARD)),
    of_bytes("an inner chunk that is empty", _ZIPPED, b"1" + index((0, 0)), (_INNER, SHARD)),
    of_files(
        "inner chunks that overlap",
        _ZIPPED,
        {"c/0/0": b"123" + index((0, 2), (1, 2))},
        warning("c/0/0", SHARD, "inner chunk [0, 1]"),
        deep=True,
    ),
    of_bytes(
        "a wrong checksum of an inner chunk",
        _CHECKED_INSIDE,
        b"1" + crc(b"1") + b"1" + crc(b"2") + index((0, 5), (5, 5)),
        ("inner chunk [0, 1]", CRC),
    ),
    of_bytes(
        "a wrong checksum deep inside",
        _NESTED,
        nested(0),
        (f"{_INNER}: {_INNER}", CRC),
    ),
    of_bytes("a wrong index deep inside", _NESTED, nested(6), (f"{_INNER}: shard index", CRC)),
    of_bytes("a wrong checksum around shards", _NESTED, nested(None)[:-1] + b"\0", ("", CRC)),
    Case(
        "v2: a wrong checksum",
        {
            ".zarray": json.dumps(
                {**json.loads(v2_array()), "compressor": {"id": "crc32c"}}
            ).encode(),
            "0.0": b"1234" + crc(b"1234"),
            "0.1": b"1234" + crc(b"1235"),
        },
        [("error", "0.1", "", CRC)],
        deep=True,
    ),
]

UNFINISHED = [
    Case(
        "a write that was interrupted",
        {
            "zarr.json": group(),
            "a/zarr.json": array((2, 2), transformers=[concat_parts((".a", 2), ".b")]),
            f".zarrfuse/{sha1(b'a/c/0/0').hexdigest()}.journal": json.dumps(
                {
                    "zarrfuse_journal": 1,
                    "key": "a/c/0/0",
                    "parts": [
                        {"key": "a/c/0/0.a", "temporary": ".zarrfuse/w-0/0"},
                        {"key": "a/c/0/0.b", "temporary": ".zarrfuse/w-0/1"},
                    ],
                }
            ).encode(),
            ".zarrfuse/w-0/0": b"56",
            ".zarrfuse/w-0/1": b"78",
        },
        [("error", "a/c/0/0", "", ("zarrfuse design", "Writing"))],
    ),
    Case(
        "a journal that names more than its chunk",
        {
            "zarr.json": group(),
            "README": b"mine",
            f".zarrfuse/{sha1(b'a/c/0/0').hexdigest()}.journal": json.dumps(
                {
                    "zarrfuse_journal": 1,
                    "key": "a/c/0/0",
                    "parts": [{"key": "README", "temporary": None}],
                }
            ).encode(),
        },
        [
            (
                "error",
                f".zarrfuse/{sha1(b'a/c/0/0').hexdigest()}.journal",
                "",
                ("zarrfuse design", "Writing"),
            )
        ],
    ),
    Case(
        "a journal that cannot be understood",
        {"zarr.json": group(), f".zarrfuse/{'0' * 40}.journal": b"{}"},
        [("error", f".zarrfuse/{'0' * 40}.journal", "", ("zarrfuse design", "Writing"))],
    ),
]

CASES = [
    *DOCUMENTS,
    *EXTENSIONS,
    *ZARR_V2,
    *CONSOLIDATED,
    *TREE,
    *CHUNK_FILES,
    *PART_FILES,
    *BYTES,
    *UNFINISHED,
]

OTHER_RULES = [STORE, ("zarrfuse design", "Symlinks")]
"""Rules that no keys and bytes can break; `test_tree` has the cases."""
