"""zarrfuse: a Zarr store as ordinary files.

The rooms, top to bottom; imports point down only:

* `cli` - the commands; `check` - everything that is wrong with a dataset.
* `mount` - the daemon of a mount; `fuse` - the kernel's requests, answered from a view.
* `zarr_python` - a store for zarr-python without a mount.
* `views` - what a store looks like as a tree of files: `raw`, `chunks`, `plain`, `images`.
* `decoding` - chunks are decoded in processes of their own.
* `transactions` - chunks are stored whole or not at all.
* `formats` - what one file is made of; `stores` - where bytes live.
* `spec` - what Zarr metadata means: pure, no input or output.
* `config`, `errors` - settings; every exception of ours and the only table of errnos.

`docs/design.md` tells the way of a read through it.
"""

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zarrfuse.zarr_python.store import PlainStore

__version__ = "0.1.0"


def open_store(source: str | os.PathLike[str], *, read_only: bool = True) -> "PlainStore":
    """The data in `source`, a folder or a zip file, as a store for zarr-python, xarray or dask.

    It serves what `zarrfuse mount --view plain` shows, without a mount; with `read_only=False` it also
    writes as `--read-write` does, into a folder, which is made if it is not there. `docs/python.md`
    tells how to use it. Raises `FileNotFoundError` if there is no such source, `PermissionError` where it
    may not be read or credentials are missing, `ValueError` for a URL of an unknown scheme, and `OSError`
    if it can't be written.
    """
    from zarrfuse.zarr_python.store import PlainStore  # noqa: PLC0415  # zarr-python takes 0.3 s

    store = PlainStore(source, read_only=read_only)
    store.ensure_open()
    return store
