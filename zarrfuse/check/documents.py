"""Checks one `zarr.json`, without the rest of the store.

Finds why a node must not be loaded, and faults of members that only decoding needs (data type, fill value,
codecs). Used by `walk`. It must not know stores or paths.
"""

import json
from dataclasses import dataclass, field
from typing import Any

from zarrfuse.check.findings import Fault, Rule, split_message
from zarrfuse.check.names import faults_of_ignored, faults_of_names
from zarrfuse.check.repair import PLACEHOLDER, Harmless, Instead, mended, take
from zarrfuse.check.rules import CODECS, DATA_TYPE, FILL_VALUE, JSON_CHARACTERS, JSON_NAMES, rule_of
from zarrfuse.errors import MetadataError
from zarrfuse.spec.codecs import problems, unknown
from zarrfuse.spec.context import CONTEXT, resolve_context
from zarrfuse.spec.data_types import DataType, fill_value_problem, fill_value_rule, parse_data_type
from zarrfuse.spec.members import Document, decode_document, shown
from zarrfuse.spec.node import MISSING, ArrayNode, Node
from zarrfuse.spec.node_v3 import parse_v3
from zarrfuse.spec.surrogates import held_by_json

_LARGEST_WITH_NAMES_COUNTED = 1 << 20
"""In a larger document (bytes) repeated names are not reported: finding them decodes all values."""


@dataclass
class Judged:
    """The result of checking a document.

    `node`: what could be parsed, else None. `layout`: whether the keys of its chunks and parts are known.
    `data_type`: that of its elements, if it is known. `sizes`: whether the size of a chunk follows from
    data type, chunk shape and codecs. `members`: the members of the stored document.
    """

    faults: list[Fault] = field(default_factory=list)
    node: Node | None = None
    layout: bool = False
    data_type: DataType | None = None
    sizes: bool = False
    members: Document = field(default_factory=dict)

    def add(self, member: str, problem: str, rule: Rule, *, warning: bool = False) -> None:
        """Add a fault."""
        self.faults.append(Fault("warning" if warning else "error", member, problem, rule))


def _ndim(members: Document) -> int:
    """The number of dimensions, by the first member that has one."""
    shape = take(members, "shape")
    if isinstance(shape, list):
        return len(shape)
    grid = take(members, "chunk_grid")
    configuration = grid.get("configuration") if isinstance(grid, dict) else None
    chunk_shape = configuration.get("chunk_shape") if isinstance(configuration, dict) else None
    for lengths in (chunk_shape, take(members, "dimension_names")):
        if isinstance(lengths, list):
            return len(lengths)
    return 0


def _shape(members: Document) -> list[int]:
    return [1] * _ndim(members)


def _grid(members: Document) -> dict[str, Any]:
    return {"name": "regular", "configuration": {"chunk_shape": [1] * _ndim(members)}}


def _node_type(members: Document) -> str:
    return "array" if members.keys() & {"shape", "data_type", "chunk_grid", "codecs"} else "group"


_HARMLESS: dict[str, Harmless] = {
    "zarr_format": lambda _: 3,
    "node_type": _node_type,
    "shape": _shape,
    "data_type": lambda _: PLACEHOLDER,
    "chunk_grid": _grid,
    "chunk_key_encoding": lambda _: "default",
    "fill_value": lambda _: None,
    "codecs": lambda _: [],
    "attributes": lambda _: {},
    "storage_transformers": lambda _: Instead.NOTHING,
    "dimension_names": lambda _: Instead.NOTHING,
    "extensions": lambda _: Instead.NOTHING,
    "consolidated_metadata": lambda _: Instead.NOTHING,
}
_HARMLESS_EXTENSION = {"name": PLACEHOLDER, "must_understand": False}
_HARMLESS_ITEMS: dict[str, Any] = {
    "shape": 1,
    "chunk_shape": 1,
    "codecs": PLACEHOLDER,
    "storage_transformers": _HARMLESS_EXTENSION,
    "extensions": _HARMLESS_EXTENSION,
    "dimension_names": None,
}
# The keys and sizes of stored chunks do not depend on these members.
_BESIDE_LAYOUT = frozenset({"data_type", "fill_value", "codecs", "attributes", "dimension_names"})


def judge(document: bytes) -> Judged:
    """Check a `zarr.json`."""
    judged = Judged()
    try:
        members = decode_document(document)
    except MetadataError as error:
        member, clause = split_message(str(error))
        judged.add(member, clause, rule_of(member, clause))
        return judged
    judged.members = dict(members)
    judged.faults += faults_of_text(document)
    if CONTEXT in members:
        try:
            members = resolve_context(members, frozenset(_HARMLESS))
        except MetadataError as error:
            member, clause = split_message(str(error))
            judged.add(member, clause, rule_of(member, clause))
            return judged
        judged.members = dict(members)
    outcome = mended(members, parse_v3, _HARMLESS, _HARMLESS_ITEMS)
    for member, clause in outcome.refusals:
        # It compares the keys of parts with chunk keys, which are not known.
        if "chunk_key_encoding" in outcome.doubtful and " behind the key " in clause:
            continue
        judged.add(member, clause, rule_of(member, clause))
    judged.node = node = outcome.node
    judged.layout = node is not None and outcome.doubtful <= _BESIDE_LAYOUT
    judged.faults += faults_of_names(judged.members)
    if node is not None:
        judged.faults += faults_of_ignored(judged.members, node.ignored)
    if isinstance(node, ArrayNode):
        _judge_elements(judged, node, outcome.doubtful)
    return judged


def faults_of_text(document: bytes) -> list[Fault]:
    """Warnings for valid JSON that readers do not all read in the same way."""
    faults = _faults_of_repeated_names(document)
    if held_by_json(document):
        problem = "has a lone surrogate, half a character, which some readers refuse"
        faults.append(Fault("warning", "", problem, JSON_CHARACTERS))
    return faults


def _faults_of_repeated_names(document: bytes) -> list[Fault]:
    """A warning for each name that an object has more than once."""
    if len(document) > _LARGEST_WITH_NAMES_COUNTED:
        return []
    repeated: dict[str, None] = {}

    def note(pairs: list[tuple[str, Any]]) -> None:
        seen = set()
        for name, _ in pairs:
            if name in seen:
                repeated[name] = None
            seen.add(name)

    try:
        json.loads(document, object_pairs_hook=note)
    except (ValueError, RecursionError):
        return []  # reported elsewhere
    problem = "is there twice; readers use the last one"
    return [Fault("warning", shown(name), problem, JSON_NAMES) for name in repeated]


def _judge_elements(judged: Judged, node: ArrayNode, doubtful: set[str]) -> None:
    """Check what only decoding needs: data type, fill value and codecs."""
    if "data_type" not in doubtful:
        try:
            data_type = parse_data_type(node.data_type)
        except MetadataError as error:
            member, clause = split_message(str(error))
            judged.add(member, clause, rule_of(member, clause))
        else:
            if data_type.known:
                judged.data_type = data_type
            else:
                problem = f"{shown(data_type.name)} is not known here"
                judged.add("data_type", problem, DATA_TYPE, warning=True)
    if node.fill_value is MISSING:
        judged.add("fill_value", "is missing", FILL_VALUE)
    elif "fill_value" not in doubtful and judged.data_type is not None:
        problem = fill_value_problem(judged.data_type, node.fill_value) or ""
        if problem:
            judged.add("fill_value", problem, Rule(*fill_value_rule(judged.data_type)))
    if "codecs" in doubtful and not node.codecs:
        return
    chunk_shape = None if doubtful & {"shape", "chunk_grid"} else node.chunk_shape
    found = list(problems(node.codecs, judged.data_type, chunk_shape))
    for problem_found in found:
        where = problem_found.below("codecs")
        judged.add(where.member, where.clause, Rule(*where.rule))
    for member, name in unknown(node.codecs):
        if name != PLACEHOLDER:
            judged.add(f"codecs{member}", f"{shown(name)} is not known here", CODECS, warning=True)
    judged.sizes = (
        judged.data_type is not None
        and chunk_shape is not None
        and "codecs" not in doubtful
        and not found
    )
