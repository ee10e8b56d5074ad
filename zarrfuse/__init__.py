"""zarrfuse: a Zarr store as ordinary files.

The packages, from top to bottom; imports point down only:

* `cli` - the commands; `check` - finds everything that is wrong with a dataset.
* `mounts` - the daemon of a mount; `fuse` - the kernel's requests, answered from a view.
* `zarr_python` - a store for zarr-python without a mount.
* `views` - a store as a tree of files: `raw`, `chunks`, `plain`, `images`, `all`.
* `decoding` - decodes chunks in worker processes.
* `transactions` - stores chunks whole or not at all.
* `formats` - the bytes of files; `stores` - local folders, zip files, object stores.
* `spec` - the meaning of Zarr metadata, without input or output.
* `config`, `errors` - options; exceptions and their errnos.

`docs/design.md` follows a read and a write through them.
"""

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zarrfuse.zarr_python.store import PlainStore

__version__ = "0.1.0"


def open_store(source: str | os.PathLike[str], *, read_only: bool = True) -> "PlainStore":
    """Open `source`, a folder, a zip file or an object store, as a store for zarr-python, xarray or dask.

    It has the files of `zarrfuse mount --view plain`, without a mount. `read_only=False` is like
    `--read-write`; a missing folder is made. `docs/python.md` explains its use.

    Raises `FileNotFoundError` if there is no such source, `PermissionError` if it may not be read or
    credentials are missing, `ValueError` for a URL of an unknown scheme, and `OSError` if it can't be
    written.
    """
    from zarrfuse.zarr_python.store import PlainStore  # noqa: PLC0415  # zarr-python takes 0.3 s

    store = PlainStore(source, read_only=read_only)
    store.ensure_open()
    return store
