"""Chunks stored by commits, and what is stored afterwards, for whoever looks."""

import os
from collections.abc import Sequence
from pathlib import Path

from builders.readers import read_all
from zarrfuse.errors import NotFound
from zarrfuse.stores.base import OWN_NAME, Reader, Store, read
from zarrfuse.stores.local.store import LocalStore
from zarrfuse.stores.local.writing import WritableLocalStore
from zarrfuse.transactions.commits import Commits
from zarrfuse.transactions.recovered_view import rolled_forward
from zarrfuse.transactions.snapshot import snapshot
from zarrfuse.transactions.spool import StoreOptions, Target


def content_and_close(reader: Reader | None) -> bytes:
    """All bytes of an open part, which is closed."""
    assert reader is not None
    try:
        return read_all(reader)
    finally:
        reader.close()


def commits_of(root: Path, **options: float) -> Commits:
    """Commits of their own on a folder."""
    return Commits(WritableLocalStore(str(root)), **options)


def store_bytes(
    commits: Commits, key: str, parts: dict[str, bytes], *, new: bool = False, sync: bool = False
) -> None:
    """Store a chunk of these parts by a spool file."""
    spool = commits.spool()
    try:
        at, targets = 0, []
        for part, data in parts.items():
            os.pwrite(spool.fd, data, at)
            targets.append(Target(part, at, at + len(data)))
            at += len(data)
        commits.store_spool(key, targets, spool, StoreOptions(new=new, sync=sync))
    finally:
        spool.close()


def files_of(store: Store, folder: str = "") -> dict[str, bytes]:
    """All files of a store by key."""
    found = {}
    for entry in store.scan(folder):
        key = f"{folder}/{entry.name}" if folder else entry.name
        if entry.kind == 0o040000:
            found |= files_of(store, key)
        else:
            found[key] = read(store, key)
    return found


def readers(store: Store, chunk_key: str, keys: Sequence[str]) -> list[Reader | None]:
    """What a view opens of a chunk."""

    def look(_: bool) -> list[Reader | None]:
        found: list[Reader | None] = []
        for key in keys:
            try:
                found.append(store.open(key))
            except NotFound:
                found.append(None)
        return found

    def are_still(found: Sequence[Reader | None]) -> bool:
        pairs = zip(keys[:-1], found, strict=False)
        return all(store.is_still(key, each) for key, each in pairs if each is not None)

    def close(found: Sequence[Reader | None]) -> None:
        for each in found:
            if each is not None:
                each.close()

    return snapshot(store, chunk_key, look, are_still, close, wait=True)


def seen(root: Path) -> dict[str, bytes]:
    """All files of a folder as a reader sees them: as if interrupted commits had come to their end."""
    store = rolled_forward(LocalStore(str(root)))
    try:
        return files_of(store)
    finally:
        store.close()


def recovered(root: Path) -> dict[str, bytes]:
    """What is stored after a recovery; nothing of our own is left."""
    commits = commits_of(root)
    commits.recover()
    commits.close()
    assert not (root / OWN_NAME).exists(), sorted((root / OWN_NAME).rglob("*"))
    found = files_of(commits.store)
    commits.store.close()
    return found
