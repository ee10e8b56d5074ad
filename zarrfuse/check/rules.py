"""The rules that findings break: the documents and sections that `check` cites.

Owns the citations, and which one belongs to an error of `zarrfuse.spec`, which names a member but not the
rule. `docs/check.md` lists them all. Used by all modules of `check`.
"""

from zarrfuse.check.findings import Rule

CORE = "Zarr v3 core specification"
V2 = "Zarr v2 specification"
ZEP9 = "ZEP 9"
ZEP10 = "ZEP 10"
SUFFIX = "ZEP suffix chunk key encoding"
CONCAT_PARTS = "Concatenate Parts Storage Transformer"
SHARDING = "sharding-indexed codec"
ZARR_PYTHON = "zarr-python user guide"
ZARRFUSE = "zarrfuse design"

METADATA = Rule(CORE, "Metadata")
FILL_VALUE = Rule(CORE, "Array metadata, fill_value")
DATA_TYPE = Rule(CORE, "Array metadata, data_type")
CODECS = Rule(CORE, "Array metadata, codecs")
STORAGE_TRANSFORMERS = Rule(CORE, "Array metadata, storage_transformers")
CHUNK_KEYS = Rule(CORE, "Array metadata, chunk_key_encoding")
GRID = Rule(CORE, "Array metadata, chunk_grid")
HIERARCHY = Rule(CORE, "Concepts and terminology")
NODE_NAMES = Rule(CORE, "Node names")
STORED = Rule(CORE, "Stored representation")
STORE = Rule(CORE, "Abstract store interface")
ENCODING = Rule(CORE, "Chunk encoding")
MUST_UNDERSTAND = Rule(CORE, "must_understand")
CORE_NAMES = Rule(CORE, "Extension naming")
JSON_NAMES = Rule("RFC 8259", "4. Objects")
JSON_CHARACTERS = Rule("RFC 8259", "8.2. Unicode Characters")

EXTENSION_NAMING = Rule(ZEP9, "Extension naming")
EXTENSION_OBJECTS = Rule(ZEP9, "Extension definitions")
VERSIONING = Rule(ZEP9, "Versioning and spec evolution")
CONTEXT = Rule(ZEP9, "Phase 3: Future name evolution")
EXTENSIONS = Rule(ZEP10, "Proposal")
PROCESSING = Rule(ZEP10, "Processing")
EXAMPLES = Rule(ZEP10, "Examples")
REFERENCES = Rule(ZEP10, "Application to sub-nodes")

SUFFIX_CONFIGURATION = Rule(SUFFIX, "Configuration")
SUFFIX_DECODING = Rule(SUFFIX, "Decoding")
PARTS_CONFIGURATION = Rule(CONCAT_PARTS, "Configuration")
PARTS_DESCRIPTION = Rule(CONCAT_PARTS, "Description")
SHARD_FORMAT = Rule(SHARDING, "Binary shard format")
CRC32C = Rule("crc32c codec", "Format and algorithm")

V2_METADATA = Rule(V2, "Arrays, Metadata")
V2_DATA_TYPE = Rule(V2, "Data type encoding")
V2_FILL_VALUE = Rule(V2, "Fill value encoding")
V2_CHUNKS = Rule(V2, "Chunks")
V2_GROUPS = Rule(V2, "Groups")
V2_ATTRIBUTES = Rule(V2, "Attributes")

CONSOLIDATED_METADATA = Rule(ZARR_PYTHON, "Consolidated metadata")
LIMITS = Rule(ZARRFUSE, "Limits on hostile metadata")
SYMLINKS = Rule(ZARRFUSE, "Symlinks")
WRITING = Rule(ZARRFUSE, "Writing")

_OF_MEMBER = {
    "zarr_format": METADATA,
    "node_type": METADATA,
    "shape": Rule(CORE, "Array metadata, shape"),
    "data_type": DATA_TYPE,
    "chunk_grid": GRID,
    "chunk_key_encoding": CHUNK_KEYS,
    "fill_value": FILL_VALUE,
    "codecs": CODECS,
    "storage_transformers": STORAGE_TRANSFORMERS,
    "dimension_names": Rule(CORE, "Array metadata, dimension_names"),
    "attributes": Rule(CORE, "Array metadata, attributes"),
    "extensions": EXTENSIONS,
    "@context": CONTEXT,
}
# Rules for extensions at any point, by clauses in messages of `spec`.
_OF_CLAUSE = (
    ("neither a raw name nor a URI-based name", EXTENSION_NAMING),
    ("must be a name or an object", EXTENSION_OBJECTS),
    ("name: is missing", EXTENSION_OBJECTS),
    ("name: must be a string", EXTENSION_OBJECTS),
    ("configuration: must be an object", EXTENSION_OBJECTS),
    ("must_understand", MUST_UNDERSTAND),
    ("unknown member", VERSIONING),
)


def rule_of(member: str, clause: str) -> Rule:
    """The rule that a `zarr.json` breaks, by the member and the clause of the error."""
    segments = member.split(": ")
    top = segments[0].partition("[")[0]
    if not member:
        return LIMITS if "more than" in clause else METADATA
    if top not in _OF_MEMBER:  # an unknown member of the document itself
        return MUST_UNDERSTAND
    if "bytes of JSON" in clause:
        return LIMITS
    if top == "@context":
        return CONTEXT
    if top == "extensions" and ("reference" in segments or "referenced" in clause):
        return REFERENCES
    if top == "extensions" and "must be understood" in clause:
        return PROCESSING
    for text, rule in _OF_CLAUSE:
        if text in f"{member}: {clause}":
            return rule
    if top == "chunk_key_encoding" and ("suffix" in segments or "base" in member):
        return SUFFIX_CONFIGURATION
    if top == "storage_transformers" and ("parts" in member):
        return PARTS_CONFIGURATION
    if top == "extensions" and len(segments) > 1:
        return EXAMPLES
    return _OF_MEMBER[top]


def rule_of_v2(document: str, member: str) -> Rule:
    """The rule that a `.zarray` or `.zgroup` breaks, by the member of the error."""
    if document == ".zgroup":
        return V2_GROUPS
    return V2_DATA_TYPE if member.partition("[")[0] == "dtype" else V2_METADATA
