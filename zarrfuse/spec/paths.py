"""Paths below the root of a store, and paths from one node to another in metadata.

Paths are `/`-separated; `""` is the root. Owns how they are joined and split, and which relative paths
metadata may hold (ZEP 10). Used by all packages above. It must not know what is stored at a path.
"""

from collections.abc import Sequence

from zarrfuse.errors import MetadataError
from zarrfuse.spec.members import shown, take_array, take_string


def join(folder: str, name: str) -> str:
    """The path of `name` in a folder."""
    return f"{folder}/{name}" if folder else name


def split(path: str) -> tuple[str, str]:
    """The folder of a path, and the name in it."""
    folder, _, name = path.rpartition("/")
    return folder, name


def folder_of(path: str) -> str:
    """The folder of a path; `""` for a name in the root."""
    return path.rpartition("/")[0]


def name_of(path: str) -> str:
    """The last name of a path; `""` for the root."""
    return path.rpartition("/")[2]


def take_paths_below(value: object, member: str) -> tuple[str, ...]:
    """`value` if it is an array of one or more different relative paths of nodes below.

    Raises `MetadataError` naming `member` and the index of the first wrong one.
    """
    paths = []
    for index, item in enumerate(take_array(value, member)):
        path = take_string(item, f"{member}[{index}]")
        if problem := _problem(path, frozenset({"", ".", ".."})):
            raise MetadataError(f"{member}[{index}]: {shown(path)} {problem}")
        paths.append(path)
    if not paths:
        raise MetadataError(f"{member}: must list one or more paths")
    seen = set()
    for index, path in enumerate(paths):
        if path in seen:
            raise MetadataError(f"{member}[{index}]: {shown(path)} is listed twice")
        seen.add(path)
    return tuple(paths)


def take_reference(value: object, member: str) -> str:
    """`value` if it is a reference: a relative path of names and `..` (ZEP 10, Sub-nodes).

    Raises `MetadataError` naming `member`.
    """
    path = take_string(value, member)
    if problem := _problem(path, frozenset({"", "."})):
        raise MetadataError(f"{member}: {shown(path)} {problem}")
    return path


def _problem(path: str, refused: frozenset[str]) -> str | None:
    if path.startswith("/"):
        return "is absolute; paths are relative to the node"
    for character, name in (("\0", "NUL"), ("\\", "backslash")):
        if character in path:
            return f"holds a {name}"
    for segment in path.split("/"):
        if segment in refused:
            return f"has the path segment {segment!r}"
    return None


def target(path: str, reference: str) -> str | None:
    """The path of the node that `reference` at the node `path` names; None if it leaves the store."""
    segments = _segments(path)
    for segment in reference.split("/"):
        if segment != "..":
            segments.append(segment)
        elif segments:
            segments.pop()
        else:
            return None
    return "/".join(segments)


def relative(path: str, start: str) -> str:
    """The shortest relative path from the node `start` to the node `path`; `""` if they are the same."""
    here, there = _segments(start), _segments(path)
    common = _common(here, there)
    return "/".join([".."] * (len(here) - common) + there[common:])


def _segments(path: str) -> list[str]:
    return path.split("/") if path else []


def _common(first: Sequence[str], second: Sequence[str]) -> int:
    count = 0
    for one, other in zip(first, second, strict=False):
        if one != other:
            break
        count += 1
    return count


def title_of(name: str) -> str:
    """A node's name without its ending: `cells` for `cells.zarr` and `cells.ome.zarr`.

    A name that would be empty stays.
    """
    title = name.removesuffix(".zarr")
    if title != name:
        title = title.removesuffix(".ome")
    return title or name
