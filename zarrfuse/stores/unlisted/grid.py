"""The names of the chunks of an array, folder by folder, made from its grid.

Owns which stored names there are in each folder below an array, in the order of the grid, without making
them all. Used by `names`. It must not know servers or documents.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, product
from math import prod

from zarrfuse.errors import NotSupported
from zarrfuse.spec.node import ArrayNode
from zarrfuse.spec.paths import join
from zarrfuse.spec.plain_keys import coordinate, key_layout
from zarrfuse.stores.remote.requests import Found, Listing

_MOST_OF_PLUG_IN = 1_000_000


class ChunkNames(Mapping[str, Found | None]):
    """The stored files of chunks in one folder, after some other files. Its names are made one by one.

    `folder`: relative to the array. `leading`: the coordinates that all chunks in it have. `endings`: what
    follows the key of the chunk, one for each file of it.
    """

    def __init__(
        self,
        node: ArrayNode,
        folder: str,
        leading: Sequence[int],
        endings: Sequence[str],
        others: Mapping[str, Found | None],
    ) -> None:
        self._node = node
        self._folder = folder
        self._leading = tuple(leading)
        self._endings = tuple(endings)
        self._others = others

    def __iter__(self) -> Iterator[str]:
        return chain(self._others, self._made())

    def _made(self) -> Iterator[str]:
        cut = len(self._folder) + 1 if self._folder else 0
        encode, endings = self._node.chunk_key, self._endings
        for rest in product(*map(range, self._node.grid_shape[len(self._leading) :])):
            name = encode((*self._leading, *rest))[cut:]
            for ending in endings:
                yield name + ending

    def __len__(self) -> int:
        chunks = prod(self._node.grid_shape[len(self._leading) :])
        return min(len(self._others) + chunks * len(self._endings), sys.maxsize)

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str):
            return False
        if name in self._others:
            return True
        return "/" not in name and is_chunk_file(self._node, join(self._folder, name))

    def __getitem__(self, name: str) -> Found | None:
        if name in self._others:
            return self._others[name]
        if name not in self:
            raise KeyError(name)
        return None


def is_chunk_file(node: ArrayNode, key: str) -> bool:
    """Whether a chunk of the grid, or a part of one, is stored under `key`, relative to the array."""
    if node.parts is None:
        return node.chunk_at(key) is not None
    return any(node.chunk_at(stem) is not None for stem, _ in node.parts.candidates(key))


def chunk_folder(
    node: ArrayNode, folder: str, others: Mapping[str, Found | None] | None = None
) -> Listing | None:
    """The names in a folder below an array, relative to it; None if its chunks have no such folder.

    `others`: the documents in the folder of the array itself, which is not whole: it may hold more.
    Raises `NotSupported` for a grid of more than a million chunks with an encoding of a plug-in.
    """
    others = others or {}
    layout = key_layout(node.chunk_keys, node.ndim)
    if layout.way == "unknown":
        return _of_plug_in(node, folder, others)
    stored = [layout.suffix + ending for ending in _part_endings(node)]
    if 0 in node.grid_shape:
        return None if folder else Listing(others, (), is_whole=False)
    names = folder.split("/") if folder else []
    lead = [layout.lead] if layout.lead else []
    if len(names) < len(lead):
        return Listing(others, lead, is_whole=False)
    leading: list[int] = []
    if layout.way == "folders":
        if names[: len(lead)] != lead:
            return None
        coordinates = names[len(lead) :]
        for name, count in zip(coordinates[: node.ndim - 1], node.grid_shape, strict=False):
            number = coordinate(name, count)
            if number is None:
                return None
            leading.append(number)
        if len(leading) == len(coordinates) < node.ndim - 1:
            numbers = range(node.grid_shape[len(leading)])
            return Listing(others, [str(number) for number in numbers], is_whole=bool(folder))
        is_names = len(leading) == len(coordinates)
    else:
        is_names = not names
    if not is_names:
        return _within_ending(node, folder, stored)
    # A name that the encoding makes ends in its suffix already.
    files = [text for text in _part_endings(node) if "/" not in layout.suffix + text]
    chunk_files = ChunkNames(node, folder, leading, files, others)
    return Listing(
        chunk_files, _ending_folders(node, folder, leading, layout.suffix, stored), bool(folder)
    )


def _part_endings(node: ArrayNode) -> Sequence[str]:
    return [""] if node.parts is None else [part.key_suffix for part in node.parts.leaves]


def _ending_folders(
    node: ArrayNode, folder: str, leading: Sequence[int], suffix: str, stored: Sequence[str]
) -> Sequence[str]:
    """The folders that keys with a slash after their coordinates make: `1` of `1/data.tiff`."""
    heads = list(dict.fromkeys(text.partition("/")[0] for text in stored if "/" in text))
    if not heads:
        return ()
    cut = len(folder) + 1 if folder else 0
    found = []
    for rest in product(*map(range, node.grid_shape[len(leading) :])):
        key = node.chunk_key((*leading, *rest)).removesuffix(suffix)[cut:]
        found += [key + head for head in heads]
    return found


def _within_ending(node: ArrayNode, folder: str, stored: Sequence[str]) -> Listing | None:
    """The names in a folder that is a part of the end of a key."""
    files: dict[str, Found | None] = {}
    folders: dict[str, None] = {}
    for ending in stored:
        names = ending.split("/")
        for cut in range(1, len(names)):
            if not folder.endswith("/".join(names[:cut])):
                continue
            if is_chunk_file(node, f"{folder}/{'/'.join(names[cut:])}"):
                if cut == len(names) - 1:
                    files[names[cut]] = None
                else:
                    folders[names[cut]] = None
    return Listing(files, list(folders)) if files or folders else None


def _of_plug_in(node: ArrayNode, folder: str, others: Mapping[str, Found | None]) -> Listing | None:
    """The names in a folder, for keys of any form: all are made."""
    if prod(node.grid_shape) > _MOST_OF_PLUG_IN:
        raise NotSupported(
            f"an array with the chunk key encoding {node.chunk_keys.name} has more than"
            f" {_MOST_OF_PLUG_IN} chunks, too many to list"
        )
    files = dict(others)
    folders: dict[str, None] = {}
    start = f"{folder}/" if folder else ""
    endings = _part_endings(node)
    for coords in product(*map(range, node.grid_shape)):
        key = node.chunk_key(coords)
        for ending in endings:
            stored = key + ending
            if stored.startswith(start):
                name, slash, _ = stored[len(start) :].partition("/")
                if slash:
                    folders[name] = None
                else:
                    files[name] = None
    if folder and not files and not folders:
        return None
    return Listing(files, list(folders), is_whole=bool(folder))
