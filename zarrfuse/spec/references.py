"""What acts on a node because the node refers to another one (ZEP 10, Application to sub-nodes).

Owns the way from a reference to the extensions it stands for, over several nodes if these refer
further, and the refusal of ways that leave the store or lead back. Used by the views. It must not
know how a node is read: who asks gives a function for that, which is called with the paths that are
referred to and no others.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeAlias

from zarrfuse.errors import MetadataError
from zarrfuse.spec.active import Active, Reference, configured
from zarrfuse.spec.node import ArrayNode, Node, interpret
from zarrfuse.spec.paths import relative, target

Load: TypeAlias = Callable[[str], Node]
"""The node at a path, as `parse_v3` gives it; raises `MetadataError`, one sentence, if there is none
or it cannot be loaded."""

# No sane hierarchy comes near: so that a hostile one costs no more than that to look at one node.
_MOST_IN_A_ROW = 32
_MOST_NODES = 64


class _Placed(NamedTuple):
    """An extension, and the path of the node where its configuration stands."""

    active: Active
    origin: str


class _Loop(MetadataError):
    """A way that leads back; each of `members` must be refused, wherever one begins."""

    def __init__(self, message: str, members: frozenset[str]) -> None:
        super().__init__(message)
        self.members = members


def resolve(node: Node, path: str, load: Load) -> Node:
    """`node`, which lies at `path`, with its references followed: nothing is pending in it.

    What is referred to stands before the node's own extensions in `active`. Raises `MetadataError`,
    starting with the member, if a reference leaves the store or leads back, or if one that must be
    understood leads to nothing; one that need not is added to `ignored`.
    """
    if not node.references:
        return node
    placed, ignored = _Way(load).follow(node, path, (path,))
    active = tuple(replace(acting, array=relative(path, origin)) for acting, origin in placed)
    complete = replace(node, active=active, references=(), ignored=node.ignored + tuple(ignored))
    # Its own have acted on it when it was read; they stand last.
    return interpret(complete, active[: len(active) - len(node.active)])


class _Way:
    """The nodes seen on the way from one node; each is loaded and followed once."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._known: dict[str, list[_Placed] | MetadataError] = {}

    def follow(
        self, node: Node, path: str, trail: tuple[str, ...]
    ) -> tuple[list[_Placed], list[str]]:
        """(what acts on a node, the names of ignored references); `trail` ends at the node."""
        # By place and entry: many ways may lead to one, and it acts once.
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
                for each in _taken(reference, node, there, self._at(there, trail)):
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


def _taken(reference: Reference, node: Node, there: str, found: Sequence[_Placed]) -> list[_Placed]:
    """What a reference of `node` stands for, out of all that acts on the node `there`."""
    kind = reference.kind
    if kind is None:
        return [placed for placed in found if placed.active.kind.inherited]
    taken = [placed for placed in found if placed.active.kind is kind]
    if not taken:
        raise MetadataError(f"/{there} has no extension {kind.name}")
    if kind.inherited:
        return taken
    # What is not inherited acts as if it stood here, so it has to go with this node.
    shape = node.shape if isinstance(node, ArrayNode) else None
    return [
        placed._replace(
            active=replace(placed.active, extension=configured(kind, placed.active.listed, shape))
        )
        for placed in taken
    ]
