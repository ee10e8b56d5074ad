"""Chooses the store for a source. Used by `daemon` and `info`."""

import os
import re

from zarrfuse.errors import SourceError
from zarrfuse.stores.base import Store
from zarrfuse.stores.local import LocalStore

ZIP_ENDINGS = (".zip", ".ozx")
# As typed, or as a path of this machine, which makes one slash of two.
_REMOTE = re.compile(r"(?:(?<=/)|^)(?:[a-z][a-z0-9+]*:/|[^/@]+@[^/:]+:).*")


def open_store(source: str, *, follow_symlinks: bool = False) -> Store:
    """The store for a path: a folder, or a zip file. Raises `SourceError`."""
    if os.path.isdir(source):
        return LocalStore(source, follow_symlinks=follow_symlinks)
    if not os.path.exists(source):
        if remote := _REMOTE.search(source):
            raise SourceError(
                f"the source {remote[0]} is not on this machine: zarrfuse mounts folders and zip files"
            )
        raise SourceError(f"the source {source} does not exist")
    if source.endswith(ZIP_ENDINGS):
        from zarrfuse.stores.zip import ZipStore  # noqa: PLC0415  # zipfile takes 20 ms

        return ZipStore(source)
    raise SourceError(f"the source {source} is neither a folder nor a .zip or .ozx file")
