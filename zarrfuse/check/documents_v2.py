"""Checks the documents of a node of Zarr v2: `.zarray`, `.zgroup` and `.zattrs`.

Used by `walk`. It must not know stores or paths.
"""

import re
from typing import Any

from zarrfuse.check.documents import Judged, faults_of_text
from zarrfuse.check.findings import Fault, split_message
from zarrfuse.check.repair import Harmless, Instead, mended, take
from zarrfuse.check.rules import V2_ATTRIBUTES, V2_DATA_TYPE, V2_FILL_VALUE, V2_METADATA, rule_of_v2
from zarrfuse.errors import MetadataError
from zarrfuse.spec.data_types import DataType
from zarrfuse.spec.members import Document, decode_document, quote_constants, shown
from zarrfuse.spec.node import ArrayNode
from zarrfuse.spec.node_v2 import parse_v2_array, parse_v2_group

_REQUIRED = ("compressor", "fill_value", "order", "filters")  # the parser requires the others
_ARRAY_MEMBERS = ("zarr_format", "shape", "chunks", "dtype", "dimension_separator", *_REQUIRED)

_NOT_NUMBERS = ("NaN", "Infinity", "-Infinity")
_SIMPLE_TYPE = re.compile(r"([<>|])([biufcmMSUVO])([0-9]*)(?:\[([0-9]*[A-Za-z]+)\])?")
_SIZES = {
    "b": (1,),
    "i": (1, 2, 4, 8),
    "u": (1, 2, 4, 8),
    "f": (2, 4, 8, 12, 16),
    "c": (8, 16, 24, 32),
    "m": (8,),
    "M": (8,),
}


def _ndim(members: Document) -> int:
    for name in ("shape", "chunks"):
        lengths = take(members, name)
        if isinstance(lengths, list):
            return len(lengths)
    return 0


_HARMLESS: dict[str, Harmless] = {
    "zarr_format": lambda _: 2,
    "shape": lambda members: [1] * _ndim(members),
    "chunks": lambda members: [1] * _ndim(members),
    "dtype": lambda _: "|u1",
    "order": lambda _: "C",
    "filters": lambda _: None,
    "compressor": lambda _: None,
    "dimension_separator": lambda _: Instead.NOTHING,
}
_HARMLESS_ITEMS: dict[str, Any] = {"shape": 1, "chunks": 1, "filters": {"id": "null"}}
_BESIDE_LAYOUT = frozenset({"dtype", "order", "filters", "compressor", "fill_value"})


def judge_v2(name: str, document: bytes) -> Judged:
    """Check a `.zarray` or `.zgroup`; `name`: which of them it is."""
    judged = Judged()
    is_array = name == ".zarray"
    try:
        members = decode_document(quote_constants(document))
    except MetadataError as error:
        member, clause = split_message(str(error))
        judged.add(member, clause, rule_of_v2(name, member))
        return judged
    judged.members = dict(members)
    judged.faults += faults_of_text(document)
    read = parse_v2_array if is_array else parse_v2_group
    outcome = mended(members, read, _HARMLESS, _HARMLESS_ITEMS)
    for member, clause in outcome.refusals:
        judged.add(member, clause, rule_of_v2(name, member))
    judged.node = node = outcome.node
    judged.layout = node is not None and outcome.doubtful <= _BESIDE_LAYOUT
    known = _ARRAY_MEMBERS if is_array else ("zarr_format",)
    for member in judged.members:
        if member not in known:
            rule = rule_of_v2(name, member)
            judged.add(shown(member), "is not known and ignored", rule, warning=True)
    if not isinstance(node, ArrayNode):
        return judged
    for member in _REQUIRED:
        if member not in members:
            judged.add(member, "is missing", V2_METADATA)
    floating = isinstance(node.data_type, str) and node.data_type[1:2] == "f"
    if floating and isinstance(node.fill_value, str) and node.fill_value not in _NOT_NUMBERS:
        problem = f"must be a number or one of {', '.join(_NOT_NUMBERS)}"
        judged.add("fill_value", f"{problem}, not {shown(node.fill_value)}", V2_FILL_VALUE)
    itemsize = None
    if "dtype" not in outcome.doubtful:
        itemsize = _judge_dtype(judged, node.data_type, "dtype")
        judged.data_type = DataType("v2", "other", itemsize)
    judged.sizes = (
        itemsize is not None
        and not node.codecs
        and outcome.doubtful.isdisjoint({"shape", "chunks", "dtype", "filters", "compressor"})
    )
    return judged


def _judge_dtype(judged: Judged, value: object, member: str) -> int | None:
    """Check a data type: the bytes of an element, None if they are not known or the type is wrong."""
    if isinstance(value, str):
        return _judge_simple_type(judged, value, member)
    if not isinstance(value, list):
        judged.add(member, f"must be a string or an array, not {shown(value)}", V2_DATA_TYPE)
        return None
    total: int | None = 0
    for index, item in enumerate(value):
        where = f"{member}[{index}]"
        if not isinstance(item, list) or len(item) not in (2, 3) or not isinstance(item[0], str):
            problem = "must be an array of name, type and optionally shape"
            judged.add(where, problem, V2_DATA_TYPE)
            total = None
            continue
        size = _judge_dtype(judged, item[1], f"{where}[1]")
        shape = item[2] if len(item) == 3 else []
        if isinstance(shape, int):
            shape = [shape]
        if not isinstance(shape, list) or not all(isinstance(n, int) and n >= 0 for n in shape):
            judged.add(f"{where}[2]", "must be an array of lengths", V2_DATA_TYPE)
            size = None
        elif size is not None:
            for length in shape:
                size *= length
        total = None if total is None or size is None else total + size
    return total


def _judge_simple_type(judged: Judged, value: str, member: str) -> int | None:
    parts = _SIMPLE_TYPE.fullmatch(value)
    if parts is None:
        judged.add(member, f"{shown(value)} is not a NumPy data type", V2_DATA_TYPE)
        return None
    order, kind, digits, unit = parts.groups()
    size = int(digits) if digits and len(digits) < 10 else None
    if kind == "O":
        return None
    if size is None or (kind in _SIZES and size not in _SIZES[kind]):
        judged.add(member, f"{shown(value)} has a size that this type cannot have", V2_DATA_TYPE)
        return None
    if order == "|" and kind in "iufcmMU" and size > 1:
        judged.add(member, f"{shown(value)} has no byte order", V2_DATA_TYPE)
        return None
    if (unit is not None) != (kind in "mM"):
        what = "has no unit" if unit is None else "has a unit, which this type cannot have"
        judged.add(member, f"{shown(value)} {what}", V2_DATA_TYPE)
        return None
    return size * 4 if kind == "U" else size


def judge_attributes(document: bytes) -> list[Fault]:
    """Check a `.zattrs`."""
    try:
        decode_document(quote_constants(document))
    except MetadataError as error:
        member, clause = split_message(str(error))
        return [Fault("error", member, clause, V2_ATTRIBUTES)]
    return faults_of_text(document)
