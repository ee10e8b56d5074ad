"""Walks a store, folder by folder, and yields faults, without opening a chunk.

Owns the checks that need more than one document or folder. Each folder is listed once, and each document
read once, except referenced ones. Used by `survey`, twice if chunks are read. It must not know how findings
are shown.
"""

import re
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import TypeAlias

from zarrfuse.check.chunks import Chunk, ChunkFiles, Role
from zarrfuse.check.consolidated import Consolidated, members_of, of_group, of_zmetadata
from zarrfuse.check.documents import Judged, judge
from zarrfuse.check.documents_v2 import judge_attributes, judge_v2
from zarrfuse.check.findings import Fault, Finding, Level, Rule
from zarrfuse.check.links import Links
from zarrfuse.check.listing import entries_in
from zarrfuse.check.rules import HIERARCHY, LIMITS, NODE_NAMES, STORE, STORED, SYMLINKS
from zarrfuse.errors import Denied, NotFound, ZarrfuseError, guarded, text_of
from zarrfuse.spec.chunk_keys import METADATA_NAMES
from zarrfuse.spec.node import ArrayNode
from zarrfuse.spec.paths import join, name_of
from zarrfuse.stores.base import Entry, Kind, Store, read
from zarrfuse.views.nodes import DOCUMENTS, LARGEST_DOCUMENT

_SORTED_NAMES = 100_000
"""A folder with fewer names is walked in their order, a larger one as it is listed."""


@dataclass(frozen=True, slots=True)
class FoundNode:
    """A folder with a metadata document."""

    path: str


@dataclass(frozen=True, slots=True)
class FoundChunk:
    """A chunk of the array at `path` whose bytes can be verified."""

    path: str
    files: ChunkFiles
    chunk: Chunk


Event: TypeAlias = Finding | FoundNode | FoundChunk


@dataclass(frozen=True, slots=True)
class _Array:
    """The array that a folder belongs to. `files`: None if its chunk keys are not known."""

    path: str
    files: ChunkFiles | None


@dataclass(slots=True)
class _Stray:
    """A folder that should have no files; the fault is reported once, at the first file in it."""

    folder: str
    fault: Fault
    reported: bool = False


@dataclass(frozen=True, slots=True)
class _Folder:
    """A folder to walk, with the array and the consolidated metadata it belongs to."""

    path: str
    array: _Array | None = None
    stray: _Stray | None = None
    consolidated: tuple[Consolidated, ...] = ()


class Walk:
    """One walk through a store."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._links = Links(store)
        self._below: list[_Folder | Consolidated] = []

    def events(self) -> Iterator[Event]:
        """Every finding, node and whole chunk, parents first.

        Raises what the store raises if the root cannot be listed. Any other folder or document that
        cannot be read is a finding.
        """
        self._below = [_Folder("")]
        while self._below:
            folder = self._below.pop()
            if isinstance(folder, Consolidated):
                yield from folder.left_over()
            else:
                yield from self._folder(folder)

    # -- folders

    def _folder(self, folder: _Folder) -> Iterator[Event]:
        try:
            rest = guarded(lambda: entries_in(self.store, folder.path))
            names = guarded(lambda: list(islice(rest, _SORTED_NAMES)))
        except Exception as error:  # whatever a store raises: there are other folders
            if not folder.path:
                raise
            yield _finding("error", folder.path, "", f"cannot be listed: {text_of(error)}", STORE)
            return
        if len(names) < _SORTED_NAMES:
            names.sort(key=lambda entry: entry.name)
        below: list[_Folder] = []
        try:
            documents = self._documents(folder.path, names)
            if documents:
                folder = yield from self._node(folder, documents)
            yield from self._entries(folder, chain(names, rest), below)
        except (ZarrfuseError, OSError) as error:
            problem = f"cannot be checked further: {text_of(error)}"
            yield _finding("error", folder.path, "", problem, STORE)
        self._below += reversed(below)

    def _documents(self, path: str, names: list[Entry]) -> dict[str, Entry]:
        """The metadata documents of a folder, those that make it a node first."""
        if len(names) < _SORTED_NAMES:
            found = {entry.name: entry for entry in names if entry.name in METADATA_NAMES}
        else:  # not all names are in `names`
            found = {}
            for name in METADATA_NAMES:
                try:
                    found[name] = self.store.stat(join(path, name))
                except (NotFound, Denied):
                    continue
        documents = {name: found[name] for name in DOCUMENTS if name in found}
        return {**documents, **found} if documents else {}

    def _entries(
        self, folder: _Folder, entries: Iterator[Entry], below: list[_Folder]
    ) -> Iterator[Event]:
        """Check the names in a folder, except documents; its subfolders are added to `below`."""
        array, stray = folder.array, folder.stray
        files = None if array is None else array.files
        prefix = "" if array is None else folder.path[len(array.path) :].lstrip("/")
        role = Role.BESIDE if files is None else files.role(prefix)
        entries = self._with_subfolders(folder, entries, below, prefix, role)
        if files is None or array is None or stray is not None:
            for entry in entries:
                if stray is not None and not stray.reported and entry.kind is Kind.FILE:
                    stray.reported = True
                    assert array is not None
                    yield stray.fault.at(array.path, stray.folder)
                if entry.denied and entry.name not in METADATA_NAMES:
                    yield _denied(join(folder.path, entry.name))
            return
        for found in files.judge(f"{prefix}/" if prefix else "", entries):
            if isinstance(found, Chunk):
                yield FoundChunk(array.path, files, found)
            else:
                file, fault = found
                yield fault.at(array.path, file)

    def _with_subfolders(
        self,
        folder: _Folder,
        entries: Iterator[Entry],
        below: list[_Folder],
        prefix: str,
        role: Role,
    ) -> Iterator[Entry]:
        """Yield the `entries`, and add each subfolder to `below`."""
        for entry in entries:
            if entry.kind is Kind.FOLDER and not entry.denied:
                below.append(self._subfolder(folder, entry.name, prefix, role))
            yield entry

    def _subfolder(self, folder: _Folder, name: str, prefix: str, role: Role) -> _Folder:
        path = join(folder.path, name)
        array, stray = folder.array, folder.stray
        if array is not None and array.files is not None and stray is None:
            relative = join(prefix, name)
            found = array.files.role(relative)
            if array.files.is_stray(relative, found, role if prefix else None):
                reported = array.files.is_chunk_or_part(relative)  # by `ChunkFiles.judge`
                stray = _Stray(relative, array.files.stray_folder(found), reported)
        return _Folder(path, array, stray, folder.consolidated)

    # -- nodes

    def _node(
        self, folder: _Folder, documents: dict[str, Entry]
    ) -> Generator[Event, None, _Folder]:
        """Check a folder with documents. Returns the folder with what its node adds."""
        path = folder.path
        yield FoundNode(path)
        if folder.array is not None:
            problem = f"is a node below the array {folder.array.path or 'at the root'}"
            yield _finding("error", path, "", problem, HIERARCHY)
        name = next(iter(documents))
        if wrong_name := _name_problem(name_of(path), is_v3=name == "zarr.json"):
            yield _finding("error", path, "", wrong_name, NODE_NAMES)
        for other in list(documents)[1:]:
            if other in DOCUMENTS:
                problem = f"is ignored: readers use {name}"
                yield _finding("warning", path, other, problem, STORED)
        judged = yield from self._judged(path, name, documents[name], folder.consolidated)
        consolidated = folder.consolidated
        if name != "zarr.json":
            consolidated = yield from self._beside_v2(path, documents, consolidated)
        array = None
        if judged is not None:
            if name == "zarr.json":
                consolidated = yield from self._of_group(path, judged, consolidated)
            array = yield from self._array(path, name, judged)
        return _Folder(path, array, None, consolidated)

    def _judged(
        self, path: str, name: str, entry: Entry, consolidated: tuple[Consolidated, ...]
    ) -> Generator[Event, None, Judged | None]:
        """Check a document, also against consolidated metadata; None if it cannot be read."""
        text, fault = self._read(path, name, entry)
        if text is None:
            if fault is not None:
                yield fault.at(path, name)
            for copy in consolidated:
                yield from copy.see(path, name, None)
            return None
        judged = judge(text) if name == "zarr.json" else judge_v2(name, text)
        for found in judged.faults:
            yield found.at(path, name)
        wrong = {re.split(r"[\[:]", found.member)[0] for found in judged.faults}
        for copy in consolidated:
            yield from copy.see(path, name, judged.members or None, wrong)
        return judged

    def _beside_v2(
        self, path: str, documents: dict[str, Entry], consolidated: tuple[Consolidated, ...]
    ) -> Generator[Event, None, tuple[Consolidated, ...]]:
        """Check `.zattrs` and `.zmetadata` of a node of Zarr v2."""
        if ".zmetadata" in documents:
            text, fault = self._read(path, ".zmetadata", documents[".zmetadata"])
            faults = [] if fault is None else [fault]
            if text is not None:
                copies, faults = of_zmetadata(path, text)
                if copies is not None:
                    consolidated = (*consolidated, copies)
                    self._below.append(copies)
                    # It also has a copy of the document of this node.
                    own = next(iter(documents))
                    found, _ = self._read(path, own, documents[own])
                    yield from copies.see(path, own, members_of(found))
            for fault in faults:
                yield fault.at(path, ".zmetadata")
        if ".zattrs" in documents:
            text, fault = self._read(path, ".zattrs", documents[".zattrs"])
            faults = [fault] if fault is not None else judge_attributes(text or b"")
            for fault in faults:
                yield fault.at(path, ".zattrs")
            for copy in consolidated:
                yield from copy.see(path, ".zattrs", members_of(text))
        return consolidated

    def _of_group(
        self, path: str, judged: Judged, consolidated: tuple[Consolidated, ...]
    ) -> Generator[Event, None, tuple[Consolidated, ...]]:
        """Check the member `consolidated_metadata` of a group of Zarr v3."""
        if judged.node is None or judged.node.node_type != "group":
            return consolidated
        copies, faults = of_group(path, judged.members)
        for fault in faults:
            yield fault.at(path, "zarr.json")
        if copies is None:
            return consolidated
        self._below.append(copies)
        return (*consolidated, copies)

    def _array(self, path: str, name: str, judged: Judged) -> Generator[Event, None, _Array | None]:
        """Check the paths in the metadata of a node. Returns the array, if it is one."""
        node = judged.node
        if node is None:
            return None
        node, faults = self._links.followed(node, path)
        for fault in (*faults, *self._links.faults_of_paths(node, path)):
            yield fault.at(path, name)
        if not isinstance(node, ArrayNode):
            return None
        files = None
        if judged.layout:
            files = ChunkFiles(node, judged, lambda key: self._size_of(join(path, key)))
        return _Array(path, files)

    def _size_of(self, key: str) -> int | None:
        try:
            entry = self.store.stat(key)
        except (NotFound, Denied):
            return None
        return entry.size if entry.kind is Kind.FILE else None

    def _read(self, path: str, name: str, entry: Entry) -> tuple[bytes | None, Fault | None]:
        """(text, None) of a document, or (None, fault)."""
        if entry.kind is not Kind.FILE:
            what = "a folder" if entry.kind is Kind.FOLDER else "a link that leads to no file"
            return None, Fault("error", "", f"is {what}", STORED)
        if entry.denied:
            return None, Fault("error", "", "leads out of the store and may not be read", SYMLINKS)
        if entry.size > LARGEST_DOCUMENT:
            problem = f"has {entry.size} bytes, more than the {LARGEST_DOCUMENT} that are read"
            return None, Fault("error", "", problem, LIMITS)
        key = join(path, name)
        try:
            return guarded(lambda: read(self.store, key, limit=LARGEST_DOCUMENT)), None
        except Exception as error:  # whatever a store raises: there are other documents
            return None, Fault("error", "", f"cannot be read: {text_of(error)}", STORE)


def _name_problem(name: str, *, is_v3: bool) -> str | None:
    """What is wrong with the name of a node (core specification, Node names; Zarr v2 has no rules)."""
    if is_v3 and name.startswith("__"):
        return "has a name that begins with __, which is reserved"
    if is_v3 and name and not name.strip("."):
        return "has a name of periods only"
    try:
        name.encode()
    except UnicodeEncodeError:
        return "has a name that is not UTF-8"
    return None


def _finding(level: Level, path: str, file: str, problem: str, rule: Rule) -> Finding:
    return Finding(level, path, file, "", problem, rule)


def _denied(path: str) -> Finding:
    problem = "leads out of the store, or is encrypted, and may not be read"
    return _finding("warning", path, "", problem, SYMLINKS)
