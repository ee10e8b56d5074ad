"""Opens a source for `check`, which must see what is stored, not what a mount shows. Used by `run`.

Owns which mounts are left out, and which are refused.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path

from zarrfuse.config import RemoteConfig
from zarrfuse.errors import SourceError
from zarrfuse.mounts import kernel_mounts
from zarrfuse.spec.paths import join
from zarrfuse.stores.base import Entry, Store
from zarrfuse.stores.local.store import LocalStore
from zarrfuse.stores.opening import open_store
from zarrfuse.views.control_files import CONTROL_NAME
from zarrfuse.views.nodes import DOCUMENTS


def open_source(source: str, remote: RemoteConfig | None = None) -> Store:
    """The store to check; `remote`: how a URL is read. Raises `SourceError`."""
    _refuse_merged(source)
    if os.path.isdir(source):
        return WithoutMounts(source)
    try:
        return open_store(source, remote=remote)
    except SourceError as error:
        raise SourceError(f"{error}{node_around(source)}") from error


class WithoutMounts(LocalStore):
    """A folder without the mounts of zarrfuse in it. `left_out`: these mounts by their keys."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        below = os.path.join(self.root.path, "")
        self.left_out = {
            mount.mountpoint.removeprefix(below): mount
            for mount in kernel_mounts.mounts()
            if mount.type == kernel_mounts.TYPE and mount.mountpoint.startswith(below)
        }

    def scan(self, folder: str, *, follow: bool = True) -> Iterator[Entry]:
        """See `stores.base.Store`."""
        for entry in super().scan(folder, follow=follow):
            if not self.left_out or join(folder, entry.name) not in self.left_out:
                yield entry


def _refuse_merged(source: str) -> None:
    """Raises `SourceError` for a path in a `chunks` mount, in which no part would be found.

    Its metadata are those of the source, but the parts are merged.
    """
    path = kernel_mounts.resolved(source)
    mount = kernel_mounts.mount_around(path)
    if mount is None:
        return
    if kernel_mounts.answer_of(mount.mountpoint) != 0:
        raise SourceError(f"the mount {mount.mountpoint} does not answer: check {mount.source}")
    with open(os.path.join(mount.mountpoint, CONTROL_NAME, "status.json"), "rb") as status:
        view = json.load(status)["view"]
    below = os.path.relpath(path, mount.mountpoint).partition("/")[0]
    if view == "chunks" or (view == "all" and below in (".", "chunks")):
        raise SourceError(
            f"{source} is in a mount that merges parts: check {mount.source}, or a raw or plain "
            "view of it"
        )


def node_around(source: str) -> str:
    """The end of a message that names the array or group around a path; empty if there is none."""
    if os.path.exists(source):
        for folder in Path(os.path.abspath(source)).parents:
            if any((folder / document).is_file() for document in DOCUMENTS):
                return f"; check {folder}, which it is in"
    return ""
