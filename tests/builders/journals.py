"""Journals and temporary parts in a store, as a process leaves them that dies during a commit."""

from collections.abc import Mapping
from pathlib import Path

from builders.folders import write_files
from zarrfuse.stores.base import OWN_NAME
from zarrfuse.transactions.journal import Journal, Part, key_of, text_of

TEMPORARY = f"{OWN_NAME}/w-dead/"
"""Where the temporary parts are."""


def leave_journal(root: Path, key: str, parts: Mapping[str, bytes | None]) -> None:
    """Leave the journal of a chunk that moves these parts into place, and deletes those of None."""
    named = []
    for number, (part, data) in enumerate(parts.items()):
        temporary = None if data is None else f"{TEMPORARY}{number}"
        if temporary is not None and data is not None:
            write_files(root, {temporary: data})
        named.append(Part(part, temporary))
    write_files(root, {key_of(key): text_of(Journal(key, tuple(named)))})
