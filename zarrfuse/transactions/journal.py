"""The journal of a commit of several stored keys, as a document.

Owns its format, its key, and how it is written and read. `apply_journal` applies it.

A journal exists from the moment in which its commit counts until the commit is done. It is named by the
chunk, so a chunk has at most one. A journal that is found is not trusted, because a dataset may come from
anywhere: `stores.local.own_folder` checks who wrote it, and a `Judge` that it names only parts of its
chunk.
"""

import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import lru_cache
from hashlib import sha1
from typing import Any, NamedTuple, TypeAlias

from zarrfuse.errors import Corrupt, Denied, NotFound, NotSupported, ZarrfuseError
from zarrfuse.stores.base import OWN_NAME, Kind, Store, WritableStore, read

_VERSION = 1
_LARGEST = 64 << 20
_NAME = re.compile(r"[0-9a-f]{40}\.journal")
_TEMPORARY = re.compile(rf"{re.escape(OWN_NAME)}/w-[0-9a-z-]+/[0-9a-z-]+")


class Part(NamedTuple):
    """A stored key, and the temporary part that is moved to it; None: the key is deleted.

    `second_name_of`: the key that it is renamed to. It is deleted only if both are still the same file:
    another process may have stored something under it since.
    """

    key: str
    temporary: str | None
    second_name_of: str | None = None


class Journal(NamedTuple):
    """The steps of a commit of the chunk `key`."""

    key: str
    parts: tuple[Part, ...]


class Refused(Denied):
    """A journal that a `Judge` refuses."""


Judge: TypeAlias = Callable[[Journal], str | None]
"""Why a journal must not be applied, as a clause after its name; None if it may."""


@lru_cache(64)  # one commit asks for it a dozen times
def name_of(chunk_key: str) -> str:
    """The name of the journal of a chunk."""
    return f"{sha1(os.fsencode(chunk_key), usedforsecurity=False).hexdigest()}.journal"


def key_of(chunk_key: str) -> str:
    """The key of the journal of a chunk."""
    return f"{OWN_NAME}/{name_of(chunk_key)}"


def stripe_of(name: str) -> int:
    """The lock (0 to 255) of the chunk with the journal of this name."""
    return int(name[:2], 16)


def is_name(name: str) -> bool:
    """Whether a name in the workspace is that of a journal."""
    return _NAME.fullmatch(name) is not None


def journals(store: Store) -> Iterator[tuple[str, int]]:
    """(name, modification time in ns) of each journal. Raises `NotFound` without a workspace."""
    for entry in store.scan(OWN_NAME):
        if entry.kind is Kind.FILE and is_name(entry.name):
            yield entry.name, entry.mtime_ns


def text_of(journal: Journal) -> bytes:
    """The text of a journal. Names that are not UTF-8 have escaped surrogates."""
    parts = [
        {name: value for name, value in part._asdict().items() if value or name != "second_name_of"}
        for part in journal.parts
    ]
    document = {"zarrfuse_journal": _VERSION, "key": journal.key, "parts": parts}
    return json.dumps(document).encode()


def put(
    store: WritableStore, journal: Journal, temporary: str | None, *, new: bool = False
) -> None:
    """Store a journal durably, except for its name (`sync_folder`).

    `temporary`: the key under which it is written before it gets its name; None in stores with an atomic
    `put`. `new`: raises `Exists` if there is a journal of the chunk. Raises `NotSupported` if it would be
    too large.
    """
    text = text_of(journal)
    if len(text) > _LARGEST:
        raise NotSupported(
            f"{journal.key} has too many parts to be stored at once: its journal would have "
            f"{len(text)} bytes, more than {_LARGEST}"
        )
    target = key_of(journal.key)
    if temporary is not None:
        _write(store, temporary, text)
        store.rename(temporary, target, replace=not new)
        return
    fd = os.memfd_create("zarrfuse-journal", os.MFD_CLOEXEC)
    try:
        os.write(fd, text)
        store.put(target, fd, 0, len(text), sync=True, new=new)
    finally:
        os.close(fd)


def _write(store: WritableStore, key: str, text: bytes) -> None:
    """Write a new file, which is deleted if that fails."""
    file = store.edit(key, create=True, exclusive=True)
    try:
        try:
            file.write(text, 0)
            file.sync()
        finally:
            file.close()
    except BaseException:
        with suppress(ZarrfuseError, OSError):  # else it goes with the workspace
            store.remove(key)
        raise


def load(store: Store, name: str, judge: Judge | None = None) -> Journal:
    """Read the journal of this name.

    Raises `NotFound`, `Corrupt` if it cannot be parsed, `NotSupported` for one of another version of
    zarrfuse, and `Refused` if the `judge` refuses it.
    """
    key = f"{OWN_NAME}/{name}"
    try:
        journal = _parsed(name, read(store, key, limit=_LARGEST))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise Corrupt(f"the journal {key} cannot be understood: {error}") from None
    problem = None if judge is None else judge(journal)
    if problem is not None:
        raise Refused(f"the journal {key} of {journal.key} {problem}")
    return journal


def is_deleted_by(store: Store, journal: Journal, part: Part, *, wait: bool = True) -> bool:
    """Whether a key that a journal deletes is still the file that it is to delete."""
    if part.second_name_of is None:
        return True
    for other in journal.parts:
        if other.key == part.second_name_of:
            for key in (other.temporary, other.key):
                with suppress(NotFound):
                    identity = store.stat(key or "", wait=wait).identity
                    return identity == store.stat(part.key, wait=wait).identity
    return False


def stands(store: Store, journal: Journal) -> bool:
    """Whether exactly this journal is stored; True if that is not known."""
    try:
        return is_still(store, journal)
    except (ZarrfuseError, OSError):
        return True


def is_still(store: Store, journal: Journal) -> bool:
    """Whether exactly this journal is stored. Raises what the store raises."""
    try:
        return load(store, name_of(journal.key)) == journal
    except (NotFound, Corrupt, NotSupported):
        return False


def _parsed(name: str, text: bytes) -> Journal:
    document: Any = json.loads(text)
    if document["zarrfuse_journal"] != _VERSION:
        raise NotSupported(f"the journal {OWN_NAME}/{name} is of another version of zarrfuse")
    key, parts = document["key"], []
    for part in document["parts"]:
        stored, temporary = part["key"], part["temporary"]
        if not _is_key(stored):
            raise ValueError(f"{stored!r} is no key")
        if temporary is not None and not _is_temporary(temporary):
            raise ValueError(f"{temporary!r} is no temporary part")
        renamed_to = part.get("second_name_of")
        if renamed_to is not None and (temporary is not None or not _is_key(renamed_to)):
            raise ValueError(f"{stored!r} is no second name of {renamed_to!r}")
        parts.append(Part(stored, temporary, renamed_to))
    if not isinstance(key, str) or name_of(key) != name:
        raise ValueError("it has the name of another chunk")
    if len({part.key for part in parts}) != len(parts):
        raise ValueError("it has a key twice")
    return Journal(key, tuple(parts))


def _is_key(key: object) -> bool:
    if not isinstance(key, str) or "\0" in key:
        return False
    try:
        os.fsencode(key)  # surrogates that stand for no byte are no name of anything
    except UnicodeEncodeError:
        return False
    names = key.split("/")
    return names[0] != OWN_NAME and not any(name in ("", ".", "..") for name in names)


def _is_temporary(key: object) -> bool:
    return isinstance(key, str) and _TEMPORARY.fullmatch(key) is not None
