"""Rolls back a commit of which some parts were moved and another cannot be.

Keeps the old files open while a commit moves its parts. Used by `multi_key_commit`. The rollback is a
commit of its own, of the old bytes of the moved parts. Its journal replaces the first one: before that the
new chunk counts, and after it the old one.
"""

import logging
import os
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType

from zarrfuse.errors import NotFound, ZarrfuseError, text_of
from zarrfuse.stores.base import Reader, WritableStore
from zarrfuse.stores.descriptor import OnDisk
from zarrfuse.transactions import journal as journals
from zarrfuse.transactions.journal import Journal, Part
from zarrfuse.transactions.temporary_parts import discard
from zarrfuse.transactions.workspace import Workspace

log = logging.getLogger(__name__)

_MOST_OPEN = 64
"""A chunk with more parts is not rolled back: keeping them open would use up the descriptors."""


class Before:
    """The old files of the keys of a journal, open until the end of the block."""

    def __init__(self, store: WritableStore, journal: Journal) -> None:
        self._store = store
        self._journal = journal
        self._old: dict[str, Reader | None] = {}

    def __enter__(self) -> "Before":
        if self._store.in_place and len(self._journal.parts) <= _MOST_OPEN:
            for part in self._journal.parts:
                self._open(part.key)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._close()

    def _close(self) -> None:
        for reader in self._old.values():
            if reader is not None:
                close_quietly(reader)

    def _open(self, key: str) -> None:
        try:
            self._old[key] = self._store.open(key)
        except NotFound:
            self._old[key] = None
        except (ZarrfuseError, OSError) as error:  # it may be written and not read, say
            log.debug("%s could not be put back: %s", key, text_of(error))

    def is_untouched(self, key: str) -> bool | None:
        """Whether a key is still the old file; None if that is not known."""
        if key not in self._old:
            return None
        old = self._old[key]
        try:
            now = self._store.open(key)
        except NotFound:
            return old is None
        except (ZarrfuseError, OSError):
            return None
        try:
            if old is None or not isinstance(old, OnDisk) or not isinstance(now, OnDisk):
                return False
            return os.path.sameopenfile(old.fileno(), now.fileno())
        finally:
            close_quietly(now)

    def journal(self, workspace: Workspace, moved: Sequence[Part]) -> Journal:
        """Store the old bytes of the `moved` parts, and the journal that moves them back.

        It replaces the first journal, not durably yet (`sync_folder`). If it raises, the first journal
        still exists, and no new part.
        """
        store = self._store
        parts: list[Part] = []
        back = None
        try:
            for part in moved:
                reader = self._old[part.key]  # KeyError: too many, or not to be read
                temporary = None
                if reader is not None:
                    if not isinstance(reader, OnDisk):
                        raise TypeError(f"{part.key} is not open as a file")
                    temporary = workspace.temporary()
                    parts.append(Part(part.key, temporary))
                    store.put(
                        temporary,
                        reader.fileno(),
                        0,
                        reader.size,
                        mtime_ns=reader.mtime_ns,
                        like=reader.fileno(),
                    )
                else:
                    parts.append(Part(part.key, None))
            store.sync_folder(workspace.folder())
            back = Journal(self._journal.key, tuple(parts))
            journals.put(store, back, workspace.temporary())
        except BaseException:
            if back is None or not journals.stands(store, back):
                discard(store, parts)
                raise
        return back


def close_quietly(reader: Reader) -> None:
    """Close a reader, and ignore errors: its bytes are copied or not needed."""
    with suppress(ZarrfuseError, OSError):
        reader.close()
