"""zarrfuse: a Zarr store as ordinary files.

The map of the house, top to bottom; imports point down only:

* `cli` - commands and options; `check`, `demo`, `doctor` and `info` are what some of them do.
* `daemon` - mount, readiness, signals, unmount; `mounts` - what the kernel has mounted.
* `fuse` - kernel requests in, replies and errno out; `inodes` - numbers for names; `handles` - what
  is open; `replies` - what the kernel is told of names; `threads` - store calls with a time-out;
  `eager` - waits for requests without parking in trio.
* `opening` - the view of a name; `images` - the one that decodes: its tree, decoded chunks, and the files
  made of them.
* `plugin` - what zarr-python finds of zarrfuse: `suffix` and `packbits` (whose bits `packbits` packs);
  `plain_store` - a store of zarr-python without a mount; `keys_store` - the files of a view as one;
  `keys` - the files of a view by their keys; `fill_values` - which chunks are empty.
* `views` - what a store looks like as a tree of files.
* `files` - what one file is made of.
* `stores` - where bytes live.
* `spec` - what Zarr metadata means: pure, no input or output.
* `config`, `errors` - frozen settings; every exception of ours and the only errno table.

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
