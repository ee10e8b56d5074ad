"""What is in a source or under a path of a mount: the tree of nodes, or the facts on one file.

Owns how facts become text. Used by `cli`. A source is read through the `chunks` view; a path in a
mount through the mount's own control files, so that it tells what the mount thinks.
"""

import json
import os
import sys
from collections.abc import Iterator
from typing import Any, Protocol

from rich.console import Console
from rich.tree import Tree

from zarrfuse import mounts
from zarrfuse.config import PERMANENT_TTL_S
from zarrfuse.errors import NotFound, SourceError, ZarrfuseError
from zarrfuse.spec.chunk_keys import parse_chunk_key_encoding
from zarrfuse.stores.base import Entry, Kind
from zarrfuse.stores.opening import ZIP_ENDINGS, open_store
from zarrfuse.views.base import Facts, join
from zarrfuse.views.control import CONTROL_NAME
from zarrfuse.views.nodes import DOCUMENTS
from zarrfuse.views.opening import open_view


class _Folder(Protocol):
    path: str

    def list(self) -> dict[str, Entry]: ...
    def child(self, name: str) -> "_Folder": ...
    def facts(self, name: str | None) -> Facts: ...


class _MountedFolder:
    """A folder of a mount, told of by the mount's control files."""

    def __init__(self, mountpoint: str, path: str) -> None:
        self._mountpoint = mountpoint
        self.path = path

    def list(self) -> dict[str, Entry]:
        """Its sub-folders; files are not needed here."""
        with os.scandir(os.path.join(self._mountpoint, self.path)) as names:
            folders = [found.name for found in names if found.is_dir(follow_symlinks=False)]
        return {name: Entry(name, Kind.FOLDER, 0, 0) for name in folders}

    def child(self, name: str) -> "_MountedFolder":
        """The folder of that name."""
        return _MountedFolder(self._mountpoint, join(self.path, name))

    def facts(self, name: str | None) -> Facts:
        """What the mount tells of a file, or of the node of the folder."""
        for document in DOCUMENTS if name is None else (name,):
            file = os.path.join(self._mountpoint, CONTROL_NAME, "info", self.path, document)
            try:
                with open(file, encoding="utf-8") as told:
                    return json.load(told)  # type: ignore[no-any-return]
            except FileNotFoundError:
                continue
        if name is not None:
            raise NotFound(f"there is no {join(self.path, name)} in {self._mountpoint}")
        return {"path": self.path}


def show(path: str, *, as_json: bool) -> None:
    """Print what is known of a source, or of a path in a mount. Raises `ZarrfuseError`."""
    where = os.path.join(
        os.path.realpath(os.path.dirname(os.path.abspath(path))),
        os.path.basename(os.path.abspath(path)),
    )
    mount = mounts.mount_around(where)
    if mount is not None:
        answer = mounts.answer_of(mount.mountpoint)
        if answer != 0:
            state = "is not served any more: mount it again" if answer else "does not answer"
            raise SourceError(f"the mount {mount.mountpoint} {state}")
        below = os.path.relpath(where, mount.mountpoint)
        below = "" if below == "." else below
        if not os.path.isdir(where):
            folder, _, name = below.rpartition("/")
            _show_facts(_MountedFolder(mount.mountpoint, folder).facts(name), as_json)
            return
        _show_tree(where, _MountedFolder(mount.mountpoint, below), as_json)
        return
    if os.path.isfile(where) and not where.endswith(ZIP_ENDINGS):
        raise SourceError(
            f"{path} is a file outside a mount: mount its folder, and ask of it there"
        )
    store = open_store(os.path.realpath(path))
    try:
        _show_tree(path, open_view("chunks", store, PERMANENT_TTL_S), as_json)
    finally:
        store.close()


def nodes(folder: _Folder) -> Iterator[tuple[int, Facts]]:
    """Every folder at and below `folder` with its depth and facts, parents first.

    Below an array nothing is looked for: what is there are its chunks. A folder below that cannot
    be looked into is told of with its `error`, and the rest goes on.
    """
    todo = [(0, folder)]
    while todo:
        depth, folder = todo.pop()
        facts: Facts = {"path": folder.path}
        below: list[tuple[int, _Folder]] = []
        try:
            facts = folder.facts(None)
            if facts.get("node_type") != "array":
                names = sorted(e.name for e in folder.list().values() if e.kind is Kind.FOLDER)
                below = [(depth + 1, folder.child(name)) for name in names]
        except (ZarrfuseError, OSError) as error:
            if not depth:
                raise
            facts = {"error": str(error), **facts}
        yield depth, facts
        todo.extend(reversed(below))


def _show_tree(title: str, folder: _Folder, as_json: bool) -> None:
    if as_json:
        found = [facts for _, facts in nodes(folder)]
        print(json.dumps({"source": title, "nodes": found}, indent=2))
        return
    top: Tree | None = None
    branches: list[Tree] = []
    empty = True
    for depth, facts in nodes(folder):
        empty = empty and not facts.keys() & {"node_type", "error"}
        name = facts["path"].rpartition("/")[2] if depth else title
        line = f"{name}  {_in_one_line(facts)}".rstrip()
        del branches[depth:]
        branch = branches[-1].add(line, highlight=False) if branches else Tree(line)
        top = top or branch
        branches.append(branch)
    if top is None:
        raise SourceError(f"{title} has nothing to tell of")
    # Wide, so that no line is cut: a terminal wraps it, and a pipe has no width.
    Console(width=4096, highlight=False, markup=False, emoji=False).print(top)
    if empty:
        print(f"zarrfuse: there is no Zarr array or group in {title}", file=sys.stderr)


def _in_one_line(facts: Facts) -> str:
    if "error" in facts:
        return f"not loaded: {facts['error']}"
    if facts.get("node_type") != "array":
        kind: str = facts.get("node_type", "")
        return f"{kind} (Zarr v{facts['zarr_format']})" if kind else ""
    words = [
        f"array (Zarr v{facts['zarr_format']})",
        f"shape {_times(facts['shape'])}",
        _type_name(facts["data_type"]),
        f"chunks {_times(facts['chunk_shape'])}",
        f"keys {_example_key(facts)}",
    ]
    if facts.get("parts"):
        words.append("parts " + " + ".join(_part(part) for part in facts["parts"][:8]))
        if len(facts["parts"]) > 8:
            words[-1] += f" + {len(facts['parts']) - 8} more"
    return ", ".join(words)


def _times(lengths: list[int]) -> str:
    return "x".join(map(str, lengths)) or "scalar"


def _type_name(data_type: Any) -> str:
    return data_type if isinstance(data_type, str) else json.dumps(data_type)


def _example_key(facts: Facts) -> str:
    return parse_chunk_key_encoding(facts["chunk_key_encoding"]).encode([0] * len(facts["shape"]))


def _part(part: dict[str, Any]) -> str:
    size = f" ({part['size']} bytes)" if "size" in part else ""
    return (part["key_suffix"] or "main") + size


def _show_facts(facts: Facts, as_json: bool) -> None:
    if as_json:
        print(json.dumps(facts, indent=2))
        return
    width = max(map(len, facts))
    for key, value in facts.items():
        text = value if isinstance(value, str) else json.dumps(value)
        print(f"{key:<{width}}  {text}")
