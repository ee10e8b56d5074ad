"""Walks the nodes of a view, parents first, as they are found.

Used by `info`, and by `control`, which tells of many nodes in one file: asked for one after the
other through a mount, each costs a dozen requests. Knows of a node only its facts.
"""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from zarrfuse.errors import ZarrfuseError
from zarrfuse.stores.base import Entry, Kind
from zarrfuse.views.base import Folder

TOLD_WITHIN_S = 2.0


class Walkable(Protocol):
    """What is walked: a folder of a view (`ToldFolder`), or what a mount tells of one."""

    path: str

    def list(self) -> dict[str, Entry]:
        """Its names."""

    def child(self, name: str) -> "Walkable":
        """The folder of a name in it."""

    def told(self) -> Mapping[str, Any]:
        """What is known of it: `views.facts.Facts` as JSON."""


class ToldFolder:
    """A folder of a view, to be walked."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self.path = folder.path

    def list(self) -> dict[str, Entry]:
        """See `Walkable`."""
        return self._folder.list()

    def child(self, name: str) -> "ToldFolder":
        """See `Walkable`."""
        return ToldFolder(self._folder.child(name))

    def told(self) -> Mapping[str, Any]:
        """See `Walkable`."""
        return self._folder.facts(None).to_json()


@dataclass(frozen=True, slots=True)
class Found:
    """A folder that was come to.

    `place` says of it, and of each folder above it, whether it is the last in the one above; that of
    the first is empty. `folders` are the names of those in it, sorted.
    """

    place: tuple[bool, ...]
    facts: Mapping[str, Any]
    folders: Sequence[str]


def walk(folder: Walkable) -> Iterator[Found]:
    """Every folder at and below `folder`, parents first.

    Below an array nothing is looked for: what is there are its chunks. A folder below that cannot
    be looked into is told of with its `error`, and the rest goes on.
    """
    todo: list[tuple[tuple[bool, ...], Walkable]] = [((), folder)]
    while todo:
        place, folder = todo.pop()
        facts: Mapping[str, Any] = {"path": folder.path}
        names: list[str] = []
        try:
            facts = folder.told()
            if facts.get("node_type") != "array":
                names = sorted(e.name for e in folder.list().values() if e.kind is Kind.FOLDER)
        except (ZarrfuseError, OSError) as error:
            if not place:
                raise
            facts = {"error": str(error), **facts}
        yield Found(place, facts, names)
        below = [((*place, name == names[-1]), folder.child(name)) for name in names]
        todo.extend(reversed(below))


def told_below(folder: Folder) -> bytes:
    """The `facts` and the `folders` of each folder at and below `folder` by its path, as JSON.

    Of as many as are found in `TOLD_WITHIN_S`, of `folder` itself in any case: those that are named
    and not told of can be asked for.
    """
    until = time.monotonic() + TOLD_WITHIN_S
    told = []  # as text at once, which takes a quarter of the memory
    for found in walk(ToldFolder(folder)):
        value = {"facts": found.facts, "folders": found.folders}
        told.append(f"{json.dumps(found.facts['path'])}: {json.dumps(value)}".encode())
        if time.monotonic() > until:
            break
    return b"{" + b",\n".join(told) + b"}\n"
