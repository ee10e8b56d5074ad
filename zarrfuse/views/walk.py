"""Walks the nodes of a view, parents first, as they are found.

Used by `info`, and by the control files, one of which has the facts on many nodes: a node of its own file
costs a dozen requests through a mount. It knows nothing of a node but its facts.
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
    """A folder that can be walked: one of a view (`ToldFolder`), or one of a mount (`cli.info`)."""

    path: str

    def list(self) -> dict[str, Entry]:
        """Its entries by name."""

    def child(self, name: str) -> "Walkable":
        """The subfolder of this name."""

    def told(self) -> Mapping[str, Any]:
        """Its facts: `views.facts.Facts.to_json`."""


class ToldFolder:
    """A folder of a view that can be walked."""

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
class WalkedFolder:
    """A folder that the walk has reached.

    Attributes:
        place: For each folder above it and itself, whether it is the last of its siblings; empty for the
            first folder of the walk.
        facts: Its facts as JSON.
        folders: The sorted names of its subfolders.
    """

    place: tuple[bool, ...]
    facts: Mapping[str, Any]
    folders: Sequence[str]


def walk(folder: Walkable) -> Iterator[WalkedFolder]:
    """Yield `folder` and every folder below it, parents first.

    Folders in arrays are left out: they hold chunks. A folder that cannot be listed has an `error` among
    its facts, and the walk goes on.
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
        yield WalkedFolder(place, facts, names)
        below = [((*place, name == names[-1]), folder.child(name)) for name in names]
        todo.extend(reversed(below))


def told_below(folder: Folder) -> bytes:
    """The `facts` and `folders` of `folder` and each folder below it, by its path, as JSON.

    Stops after `TOLD_WITHIN_S`: a folder that is named and has no facts here is asked for again.
    """
    until = time.monotonic() + TOLD_WITHIN_S
    told = []  # text, which takes a quarter of the memory of objects
    for found in walk(ToldFolder(folder)):
        value = {"facts": found.facts, "folders": found.folders}
        told.append(f"{json.dumps(found.facts['path'])}: {json.dumps(value)}".encode())
        if time.monotonic() > until:
            break
    return b"{" + b",\n".join(told) + b"}\n"
