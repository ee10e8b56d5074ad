"""`zarrfuse info`: prints the tree of nodes in a source or a mount, or the facts on a file of a mount.

Owns how facts become text. Used by `app`. A source is read through the `chunks` view, a mount through its
control files, so that the output is what the mount shows.
"""

import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from zarrfuse.config import PERMANENT_TTL_S, RemoteConfig
from zarrfuse.errors import NotFound, SourceError, printable
from zarrfuse.mounts import kernel_mounts
from zarrfuse.spec.chunk_keys import parse_chunk_key_encoding
from zarrfuse.spec.paths import join, name_of, split
from zarrfuse.stores.base import Entry, Kind
from zarrfuse.stores.opening import is_url, open_store, printable_source
from zarrfuse.stores.zip.file import ZIP_ENDINGS
from zarrfuse.transactions.recovered_view import rolled_forward
from zarrfuse.views.choice import open_view
from zarrfuse.views.chunks.journals import judge_of
from zarrfuse.views.control_files import CONTROL_NAME, NODES_NAME
from zarrfuse.views.nodes import DOCUMENTS
from zarrfuse.views.walk import ToldFolder, Walkable, walk

_Facts: TypeAlias = Mapping[str, Any]
"""`views.facts.Facts` as JSON, by name."""

_GUIDES = ("    ", "│   ", "├── ", "└── ")
_ASCII_GUIDES = ("    ", "|   ", "+-- ", "`-- ")


class _MountedFolder:
    """A folder of a mount, read from the control files; `nodes`: the facts on many folders, by path."""

    def __init__(self, mountpoint: str, path: str, nodes: Mapping[str, Any] | None = None) -> None:
        self._mountpoint = mountpoint
        self._known_nodes = nodes
        self.path = path

    def list(self) -> dict[str, Entry]:
        """Its subfolders; files are not needed."""
        node = self._nodes().get(self.path)
        folders = self._listed() if node is None else node["folders"]
        return {name: Entry(name, Kind.FOLDER, 0, 0) for name in folders}

    def child(self, name: str) -> "_MountedFolder":
        """The folder of that name."""
        path, nodes = join(self.path, name), self._nodes()
        return _MountedFolder(self._mountpoint, path, nodes if path in nodes else None)

    def told(self) -> _Facts:
        """The facts on the node of the folder."""
        node = self._nodes().get(self.path)
        if node is not None:
            return node["facts"]  # type: ignore[no-any-return]
        for document in DOCUMENTS:
            try:
                return self._read(document)
            except FileNotFoundError:
                continue
        return {"path": self.path}

    def facts_on(self, name: str) -> _Facts:
        """The facts on a file. Raises `NotFound`."""
        try:
            return self._read(name)
        except FileNotFoundError:
            path = join(self.path, name)
            raise NotFound(f"there is no {path} in {self._mountpoint}") from None

    def _nodes(self) -> Mapping[str, Any]:
        """The facts on this folder and those below; none if the daemon is too old, or fails."""
        if self._known_nodes is None:
            try:
                self._known_nodes = self._read(NODES_NAME)
            except OSError:
                self._known_nodes = {}
        return self._known_nodes

    def _read(self, name: str) -> _Facts:
        path = os.path.join(self._mountpoint, CONTROL_NAME, "info", self.path, name)
        with open(path, encoding="utf-8") as file:
            return json.load(file)  # type: ignore[no-any-return]

    def _listed(self) -> Iterable[str]:
        with os.scandir(os.path.join(self._mountpoint, self.path)) as names:
            return [found.name for found in names if found.is_dir(follow_symlinks=False)]


def show(path: str, *, as_json: bool, remote: RemoteConfig | None = None) -> str | None:
    """Print the facts on a source, or on a path in a mount. Raises `ZarrfuseError`.

    Returns a sentence if there is no Zarr in it, or its root is not loaded.
    """
    where = os.path.join(
        os.path.realpath(os.path.dirname(os.path.abspath(path))),
        os.path.basename(os.path.abspath(path)),
    )
    mount = kernel_mounts.mount_around(where)
    if mount is not None:
        answer = kernel_mounts.answer_of(mount.mountpoint)
        if answer != 0:
            state = "has no daemon any more: mount it again" if answer else "does not answer"
            raise SourceError(f"the mount {mount.mountpoint} {state}")
        below = os.path.relpath(where, mount.mountpoint)
        below = "" if below == "." else below
        if not os.path.isdir(where):
            folder, name = split(below)
            _show_facts(_MountedFolder(mount.mountpoint, folder).facts_on(name), as_json)
            return None
        return _show_tree(where, _MountedFolder(mount.mountpoint, below), as_json)
    if os.path.isfile(where) and not where.endswith(ZIP_ENDINGS):
        raise SourceError(
            f"{path} is a file outside a mount: mount its folder, and give its path in the mount"
        )
    stored = open_store(path if is_url(path) else os.path.realpath(path), remote=remote)
    store = rolled_forward(stored, judge_of(stored))
    try:
        return _show_tree(
            printable_source(path), ToldFolder(open_view("chunks", store, PERMANENT_TTL_S)), as_json
        )
    finally:
        store.close()


def _show_tree(title: str, folder: Walkable, as_json: bool) -> str | None:
    """Print the tree. Returns a sentence if there is no Zarr in it, or its root is not loaded."""
    if as_json:
        nodes = [found.facts for found in walk(folder)]
        print(json.dumps({"source": title, "nodes": nodes}, indent=2))
        return _problem(title, nodes[0], any(map(_is_node, nodes)))
    guides = _GUIDES if (sys.stdout.encoding or "").lower().startswith("utf") else _ASCII_GUIDES
    root: _Facts = {}
    lines: list[tuple[int, bool, str]] = []
    for found in walk(folder):
        place, facts = found.place, found.facts
        root = facts if not place else root
        name = name_of(facts["path"]) if place else title
        text = printable(f"{name}  {_in_one_line(facts)}".rstrip())
        lines.append((len(place), _is_node(facts) or root.get("view") == "raw", text))
    for shown, text in _shown(lines):
        print(_guide(shown, guides) + text)
    return _problem(title, root, any(is_node for _, is_node, _ in lines))


def _shown(lines: Sequence[tuple[int, bool, str]]) -> Iterator[tuple[tuple[bool, ...], str]]:
    """The place and text of the lines of nodes, and of the folders that lead to them.

    `lines` are (depth, whether it is a node, text), in the order of the tree. Places are as in
    `WalkedFolder`, among what is shown. The first line is always shown.
    """
    kept: list[tuple[int, bool, str]] = []  # (depth, whether the last of its siblings, text)
    continued: list[bool] = []  # by depth: whether a sibling that is shown follows
    for depth, is_node, text in reversed(lines):
        if is_node or depth == 0 or len(continued) > depth + 1:
            continued += [False] * (depth + 1 - len(continued))
            kept.append((depth, not continued[depth], text))
            continued[depth:] = [True]
    place: list[bool] = []
    for depth, is_last, text in reversed(kept):
        place[max(depth - 1, 0) :] = [is_last] if depth else []
        yield tuple(place), text


def _is_node(facts: _Facts) -> bool:
    return bool(facts.keys() & {"node_type", "error"})


def _problem(title: str, root: _Facts, any_node: bool) -> str | None:
    if "error" in root:
        return f"the root of {title} is not loaded: {root['error']}"
    if any_node or root.get("view") == "raw":  # which has no nodes
        return None
    return f"there is no Zarr array or group in {title}"


def _guide(place: tuple[bool, ...], guides: tuple[str, str, str, str]) -> str:
    """The lines of the tree before a name."""
    space, line, fork, end = guides
    above = "".join(space if last else line for last in place[:-1])
    return above + (end if place[-1] else fork) if place else ""


def _in_one_line(facts: _Facts) -> str:
    if "error" in facts:
        return f"not loaded: {facts['error']}"
    last = [f"{fact} {json.dumps(facts[fact])}" for fact in facts.get("told_by", ())]
    if "kept_as_v2" in facts:
        last.append(f"kept as Zarr v2: {facts['kept_as_v2']}")
    if "not_decoded" in facts:
        last.append(f"not decoded: {facts['not_decoded']}")
    last += _shown_as(facts.get("renderings", {}))
    if facts.get("node_type") != "array":
        kind: str = facts.get("node_type", "")
        return ", ".join([f"{kind} (Zarr v{facts['zarr_format']})", *last]) if kind else ""
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
    return ", ".join(words + last)


def _shown_as(renderings: Mapping[str, int | str]) -> list[str]:
    """The renderings of a node, and why others are missing."""
    made = [name for name, size in renderings.items() if isinstance(size, int)]
    shown = [f"shown as {' '.join(made)}"] if made else []
    missing: dict[str, list[str]] = {}
    for name, reason in renderings.items():
        if isinstance(reason, str):
            missing.setdefault(reason, []).append(name)
    return shown + [f"no {' '.join(names)}: {reason}" for reason, names in missing.items()]


def _times(lengths: list[int]) -> str:
    return "x".join(map(str, lengths)) or "scalar"


def _type_name(data_type: Any) -> str:
    return data_type if isinstance(data_type, str) else json.dumps(data_type)


def _example_key(facts: _Facts) -> str:
    return parse_chunk_key_encoding(facts["chunk_key_encoding"]).encode([0] * len(facts["shape"]))


def _part(part: dict[str, Any]) -> str:
    size = f" ({part['size']} bytes)" if "size" in part else ""
    return (part["key_suffix"] or "main") + size


def _show_facts(facts: _Facts, as_json: bool) -> None:
    if as_json:
        print(json.dumps(facts, indent=2))
        return
    width = max(map(len, facts))
    for key, value in facts.items():
        text = value if isinstance(value, str) else json.dumps(value)
        print(printable(f"{key:<{width}}  {text}"))
