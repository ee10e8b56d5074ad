"""Resolves references between nodes (ZEP 10, Application to sub-nodes).

Replaces a reference by the extensions of the other node, which may refer to further nodes, and refuses
references that leave the store or form a loop. Used by views and `check`. It must not know how a node is
read: the caller passes a function that loads the node at a path.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeAlias

from zarrfuse.errors import MetadataError
from zarrfuse.spec.active import Active, Reference, configured
from zarrfuse.spec.node import ArrayNode, Node, interpret
from zarrfuse.spec.paths import relative, target

Load: TypeAlias = Callable[[str], Node]
"""Returns the node at a path, like `parse_v3`; raises `MetadataError`, a sentence, if there is none or it
cannot be loaded."""

# They bound the cost of one node in a hostile hierarchy.
_MOST_IN_A_ROW = 32
_MOST_NODES = 64


class _Placed(NamedTuple):
    """An extension, and the path of the node where its configuration stands."""

    active: Active
    origin: str


class _Loop(MetadataError):
    """References that form a loop over the nodes `members`: all of them are refused."""

    def __init__(self, message: str, members: frozenset[str]) -> None:
        super().__init__(message)
        self.members = members


def resolve(node: Node, path: str, load: Load) -> Node:
    """The node at `path` with its references resolved.

    The extensions of other nodes come before the node's own in `active`. Raises `MetadataError` that starts
    with the member if a reference leaves the store or is part of a loop, or if one that must be understood
    finds no extension; one that need not be understood is added to `ignored`.
    """
    if not node.references:
        return node
    placed, ignored = _Resolver(load).follow(node, path, (path,))
    active = tuple(replace(acting, array=relative(path, origin)) for acting, origin in placed)
    complete = replace(node, active=active, references=(), ignored=node.ignored + tuple(ignored))
    # Its own extensions, the last ones, were applied when it was parsed.
    return interpret(complete, active[: len(active) - len(node.active)])


class _Resolver:
    """Resolves the references of one node; each other node is loaded and resolved once."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._known: dict[str, list[_Placed] | MetadataError] = {}

    def follow(
        self, node: Node, path: str, trail: tuple[str, ...]
    ) -> tuple[list[_Placed], list[str]]:
        """(the active extensions of a node, the names of ignored references).

        `trail`: the paths from the first node to this one.
        """
        # By origin and entry: an extension that several references reach acts once.
        placed: dict[tuple[str, int], _Placed] = {}
        ignored = []
        for reference in node.references:
            there = target(path, reference.path)
            if there is None:
                raise MetadataError(f"{reference.title} leads out of the store")
            if there in trail:
                members = trail[trail.index(there) :]
                shown = " -> ".join(f"/{member}" for member in (*members, there))
                raise _Loop(f"{reference.title} leads back: {shown}", frozenset(members))
            try:
                for each in _selected(reference, node, there, self._at(there, trail)):
                    placed.setdefault((each.origin, id(each.active.listed)), each)
            except MetadataError as error:
                if isinstance(error, _Loop) and path in error.members:
                    raise
                if reference.listed.must_understand:
                    raise MetadataError(f"{reference.title}: {error}") from error
                ignored.append(reference.listed.name)
        own = (_Placed(acting, path) for acting in node.active)
        return [*placed.values(), *own], ignored

    def _at(self, path: str, trail: tuple[str, ...]) -> list[_Placed]:
        known = self._known.get(path)
        if known is None:
            if len(trail) > _MOST_IN_A_ROW:
                raise MetadataError(f"more than {_MOST_IN_A_ROW} nodes refer to one another")
            if len(self._known) >= _MOST_NODES:
                raise MetadataError(f"more than {_MOST_NODES} nodes are referred to")
            try:
                known = self._followed(path, trail)
            except MetadataError as error:
                known = error
            self._known[path] = known
        if isinstance(known, MetadataError):
            raise known
        return known

    def _followed(self, path: str, trail: tuple[str, ...]) -> list[_Placed]:
        node = self._load(path)
        try:
            placed, _ = self.follow(node, path, (*trail, path))
        except _Loop:
            raise
        except MetadataError as error:
            raise MetadataError(f"/{path}: {error}") from error
        return placed


def _selected(
    reference: Reference, node: Node, there: str, found: Sequence[_Placed]
) -> list[_Placed]:
    """The extensions that a reference of `node` takes from those of the node `there`."""
    kind = reference.kind
    if kind is None:
        return [placed for placed in found if placed.active.kind.inherited]
    selected = [placed for placed in found if placed.active.kind is kind]
    if not selected:
        raise MetadataError(f"/{there} has no extension {kind.name}")
    if kind.inherited:
        return selected
    # One that is not inherited acts as if it were listed here, so it must be valid for this node.
    shape = node.shape if isinstance(node, ArrayNode) else None
    return [
        placed._replace(
            active=replace(placed.active, extension=configured(kind, placed.active.listed, shape))
        )
        for placed in selected
    ]
