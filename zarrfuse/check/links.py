"""Checks paths in the metadata of a node that refer to other nodes: arrays of a group, references (ZEP 10).

Used by `walk`. Faults of the other node are reported there, not here.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import lru_cache

from zarrfuse.check.findings import Fault, split_message
from zarrfuse.check.rules import EXAMPLES, MUST_UNDERSTAND, REFERENCES
from zarrfuse.errors import Denied, MetadataError, NotFound, ZarrfuseError, text_of
from zarrfuse.spec.active import Active, Reference
from zarrfuse.spec.members import shown
from zarrfuse.spec.node import Node, NodeError
from zarrfuse.spec.node_v3 import parse_v3
from zarrfuse.spec.paths import join
from zarrfuse.spec.references import resolve
from zarrfuse.spec.zep10 import MultiscaleArrays, TieredStorage
from zarrfuse.stores.base import Kind, Store, read
from zarrfuse.views.nodes import LARGEST_DOCUMENT

_NODES_KEPT = 64
_MOST_ALONE = 64
"""References of one node that are resolved one by one, to find what is wrong with each."""


class Links:
    """The nodes that paths in one store refer to; the last few are cached."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._load: Callable[[str], Node] = lru_cache(_NODES_KEPT)(self._load_uncached)

    def followed(self, node: Node, path: str) -> tuple[Node, list[Fault]]:
        """(the node with its references resolved, what is wrong with them)."""
        faults: list[Fault] = []
        for reference in node.references[:_MOST_ALONE]:
            try:
                found = resolve(replace(node, references=(reference,)), path, self._load)
            except MetadataError as error:
                member, clause = _split(reference, str(error))
                faults.append(Fault("error", member, clause, REFERENCES))
                continue
            if len(found.ignored) > len(node.ignored):
                member, path_shown = _split(reference, reference.title)
                problem = f"{path_shown} has no such extension, so the reference is ignored"
                faults.append(Fault("warning", member, problem, MUST_UNDERSTAND))
        if not node.references or faults:
            return node, faults
        try:
            return resolve(node, path, self._load), faults
        except MetadataError as error:  # together they are too many
            return node, [Fault("error", *split_message(str(error)), REFERENCES)]

    def faults_of_paths(self, node: Node, path: str) -> Iterator[Fault]:
        """What is wrong with the paths of arrays in the extensions of a group."""
        for acting in node.active:
            if acting.array:
                continue  # it is listed at another node, and checked there
            for member, below in _paths(acting):
                if problem := self._problem(join(path, below)):
                    where = f"{_entry(node, acting)}: {member}"
                    yield Fault("error", where, f"{shown(below)} {problem}", EXAMPLES)

    def _problem(self, path: str) -> str | None:
        for document in ("zarr.json", ".zarray"):
            try:
                if self._store.stat(join(path, document)).kind is not Kind.FILE:
                    continue
            except (NotFound, Denied):
                continue
            if document == ".zarray":
                return None
            try:
                node_type = self._load(path).node_type
            except NodeError as error:
                return None if error.node_type != "group" else "leads to a group, not to an array"
            except MetadataError:
                return None  # reported for that node
            return None if node_type == "array" else "leads to a group, not to an array"
        return "leads to no array"

    def _load_uncached(self, path: str) -> Node:
        key = join(path, "zarr.json")
        try:
            text = read(self._store, key, limit=LARGEST_DOCUMENT)
        except NotFound:
            raise MetadataError(f"there is no {key}") from None
        except (ZarrfuseError, OSError, ValueError) as error:
            raise MetadataError(f"{key} cannot be read: {text_of(error)}") from error
        return parse_v3(text)


def _split(reference: Reference, message: str) -> tuple[str, str]:
    """(path of the member, clause) of a message that may begin with the title of a reference."""
    member = reference.title.rpartition(": ")[0]
    if message.startswith(member):
        return member, message[len(member) + 2 :]
    return split_message(message)


def _paths(acting: Active) -> Iterable[tuple[str, str]]:
    """(member, path) of each array in the configuration of an extension."""
    extension = acting.extension
    if isinstance(extension, MultiscaleArrays):
        for index, path in enumerate(extension.datasets):
            yield f"multiscale: datasets[{index}]", path
    if isinstance(extension, TieredStorage):
        for index, path in enumerate(acting.listed.configuration["slow-arrays"]):
            yield f"slow-arrays[{index}]", path


def _entry(node: Node, acting: Active) -> str:
    """The path of an extension's entry in `extensions`."""
    index = next(i for i, listed in enumerate(node.extensions) if listed is acting.listed)
    return f"extensions[{index}]: {acting.listed.name}"
