"""Reports interrupted writes, and finishes them on request.

Owns which journals are left over: not one whose process is still writing. Used by `survey` and `run`.
`zarrfuse.transactions` applies journals.
"""

import os
import time
from collections.abc import Iterator
from typing import NamedTuple, cast

from zarrfuse.check.findings import Fault, Finding
from zarrfuse.check.rules import WRITING
from zarrfuse.config import RemoteConfig
from zarrfuse.errors import Corrupt, Denied, NotFound, SourceError, ZarrfuseError, guarded, text_of
from zarrfuse.stores.base import OWN_NAME, Store, WritableStore
from zarrfuse.stores.opening import open_store
from zarrfuse.stores.zip.file import ZIP_ENDINGS
from zarrfuse.transactions import journal as journals
from zarrfuse.transactions.commits import Commits
from zarrfuse.transactions.journal import Refused
from zarrfuse.transactions.locks import is_locked
from zarrfuse.transactions.recovery import OLD_S, delete_refused
from zarrfuse.transactions.workspace import own_folder_of
from zarrfuse.views.chunks.journals import judge_of

_PROBLEM = "a write was interrupted; zarrfuse check --repair finishes it"
_PATIENCE_S = 5.0
_ASK_EVERY_S = 0.02


def unfinished(store: Store) -> Iterator[Finding]:
    """A finding for each chunk whose storing or deleting was interrupted."""
    judge = judge_of(store)
    for name, mtime_ns in _journals(store):
        if own_folder_of(store) is None and not store.permanent and _is_young(mtime_ns):
            continue  # its process may still be writing, and there is no lock to tell
        key = f"{OWN_NAME}/{name}"
        try:
            chunk_key = journals.load(store, name, judge).key
            _wait_for_its_process(store, chunk_key)
            store.stat(key)
        except NotFound:
            continue
        except Refused as error:
            problem = f"{error}; zarrfuse check --repair deletes it"
            yield Fault("error", "", problem, WRITING).at("", key)
        except (Corrupt, Denied) as error:
            yield Fault("error", "", str(error), WRITING).at("", key)
        except (ZarrfuseError, OSError) as error:
            yield Fault("error", "", f"cannot be read: {text_of(error)}", WRITING).at("", key)
        else:
            yield Fault("error", "", _PROBLEM, WRITING).at("", chunk_key)


def _wait_for_its_process(store: Store, chunk_key: str) -> None:
    """Wait while the chunk is locked: the process that holds the lock will delete the journal."""
    own = own_folder_of(store)
    until = time.monotonic() + _PATIENCE_S
    while own is not None and is_locked(own, chunk_key) and time.monotonic() < until:
        time.sleep(_ASK_EVERY_S)


def _is_young(mtime_ns: int) -> bool:
    return time.time() - mtime_ns / 1e9 < OLD_S


def _journals(store: Store) -> list[tuple[str, int]]:
    try:
        return guarded(lambda: sorted(journals.journals(store)))
    except Exception:  # the workspace is missing, or may not be listed
        return []


class Repaired(NamedTuple):
    """The result of `finish`: how many writes it finished, and why it deleted others."""

    finished: int
    deleted: list[str]


def finish(source: str, remote: RemoteConfig | None = None) -> Repaired:
    """Finish all interrupted writes, and delete their leftovers and refused journals.

    `remote`: how a URL is asked. Raises `SourceError` if the source cannot be written, and `Denied` if the
    journals may belong to another user.
    """
    store = _writable(source, remote)
    try:
        judge = judge_of(store)
        commits = Commits(store, judge=judge)
        try:
            deleted = delete_refused(store, commits.locks, judge)
            before = {name for name, _ in _journals(store)}
            commits.recover()
        finally:
            commits.close()
        left = {name for name, _ in _journals(store)}
        return Repaired(len(before - left), deleted)
    finally:
        store.close()


def _writable(source: str, remote: RemoteConfig | None) -> WritableStore:
    if source.endswith(ZIP_ENDINGS) and not os.path.isdir(source):
        raise SourceError(f"{source} is a zip file, which can't be repaired")
    return cast(WritableStore, open_store(source, writable=True, remote=remote))
