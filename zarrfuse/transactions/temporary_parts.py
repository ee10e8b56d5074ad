"""Temporary parts: what a commit of several stored keys has in the workspace before its journal is stored.

Owns that they are durable by then, and that their folders exist. Used by `commits`; `rollback` and
`multi_key_commit` delete them when no journal names them any more.
"""

import logging
from collections.abc import Iterable, Sequence

from zarrfuse.errors import NotFound, ZarrfuseError, text_of
from zarrfuse.spec.paths import folder_of
from zarrfuse.stores.access import Access
from zarrfuse.stores.base import WritableStore, is_there
from zarrfuse.transactions.apply_journal import make_folders
from zarrfuse.transactions.journal import Part
from zarrfuse.transactions.spool import Target
from zarrfuse.transactions.workspace import Workspace

log = logging.getLogger(__name__)


def write_parts(
    store: WritableStore,
    workspace: Workspace,
    targets: Sequence[Target],
    fd: int,
    mtime_ns: int | None,
    like: int | Access | None,
) -> Sequence[Part]:
    """Write bytes of the file `fd` to temporary parts, and make the folders of the targets.

    `mtime_ns`: the time of the parts; None: now. `like`: their owner and mode; None: those of the files
    that they will replace.
    """
    for folder in dict.fromkeys(folder_of(target.key) for target in targets):
        if folder and not is_there(store, folder):
            make_folders(store, folder)
    parts: list[Part] = []
    temporaries = workspace.temporaries(len(targets))
    try:
        for target, temporary in zip(targets, temporaries, strict=True):
            parts.append(Part(target.key, temporary))
            store.put(
                *(temporary, fd, target.start, target.stop),
                mtime_ns=mtime_ns,
                like=target.key if like is None else like,
            )
        if store.in_place:
            store.sync_folder(folder_of(temporaries[0]))
    except BaseException:
        discard(store, parts)
        raise
    return parts


def link_parts(
    store: WritableStore, workspace: Workspace, source: Sequence[str], stored: Sequence[str]
) -> Sequence[Part]:
    """Link the files `source` as temporary parts, and make the folders of their new keys `stored`."""
    for folder in dict.fromkeys(map(folder_of, stored)):
        make_folders(store, folder)
    parts: list[Part] = []
    try:
        temporaries = workspace.temporaries(len(stored))
        for old, key, temporary in zip(source, stored, temporaries, strict=True):
            store.link(old, temporary)
            parts.append(Part(key, temporary))
        store.sync_folder(workspace.folder())
    except BaseException:
        discard(store, parts)
        raise
    return parts


def discard(store: WritableStore, parts: Iterable[Part]) -> None:
    """Delete temporary parts that no journal names. Failures are logged."""
    for part in parts:
        if part.temporary is None:
            continue
        try:
            store.remove(part.temporary)
        except NotFound:
            continue
        except (ZarrfuseError, OSError) as error:  # it goes with the workspace
            log.warning("the temporary part %s stays: %s", part.temporary, text_of(error))
