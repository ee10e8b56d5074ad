"""zarrfuse: a Zarr store as ordinary files.

The packages, from top to bottom; imports point down only:

* `cli` - the commands; `check` - finds everything that is wrong with a dataset.
* `indexing` - a folder of TIFF or HDF5 files becomes a Zarr array; `exporting` - the reverse.
* `progress` - bars on a terminal.
* `mounts` - the daemon of a mount; `fuse` - the kernel's requests, answered from a view.
* `zarr_python` - a store for zarr-python without a mount.
* `views` - a store as a tree of files: `raw`, `chunks`, `plain`, `images`, `all`.
* `decoding` - decodes chunks in worker processes.
* `transactions` - stores chunks whole or not at all.
* `shards` - files of other formats that are shards: where their inner chunks are.
* `formats` - the bytes of files; `stores` - local folders, zip files, remote stores.
* `spec` - the meaning of Zarr metadata, without input or output.
* `jobs` - work on many items, in several processes or on a Dask cluster.
* `config`, `errors` - options; exceptions and their errnos.

`docs/design.md` follows a read and a write through them.
"""

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Union

if TYPE_CHECKING:
    from zarr.abc.store import Store

    from zarrfuse.zarr_python.store import PlainStore

__version__ = "0.1.0"


def open_store(source: str | os.PathLike[str], *, read_only: bool = True) -> "PlainStore":
    """Open `source`, a folder, a zip file or a URL, as a store for zarr-python, xarray or dask.

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


def index(
    folder: str | os.PathLike[str],
    out: str | os.PathLike[str] | None = None,
    *,
    pattern: str | None = None,
    dims: Sequence[str] | None = None,
    way: Literal["link", "copy", "move"] = "link",
    ngff: bool = False,
    dataset: str | None = None,
    delete: bool = False,
    jobs: int = 1,
    scheduler: str | None = None,
) -> str:
    """Make a Zarr array of the TIFF or HDF5 files in `folder`, a path or a URL; return where it is.

    The pixels stay where they are: the array has hard links to the files (`way`: or copies, or the files
    themselves), an index beside each, and a `zarr.json`. Read it with `open_store`. The options are those
    of `zarrfuse index`; `docs/tiff-shards.md` says which files can be indexed. Run again, it does only what
    changed.

    Raises an exception of `zarrfuse.errors` before anything is written if files do not fit, with a sentence
    that names the file and what would help.
    """
    from zarrfuse.config import RemoteConfig  # noqa: PLC0415  # `import zarrfuse` stays fast
    from zarrfuse.indexing.options import options_of  # noqa: PLC0415  # as above
    from zarrfuse.indexing.progress import Silent  # noqa: PLC0415  # as above
    from zarrfuse.indexing.run import index as run  # noqa: PLC0415  # as above

    options = options_of(
        os.fspath(folder),
        None if out is None else os.fspath(out),
        pattern=pattern,
        dims=dims,
        way=way,
        ngff=ngff,
        dataset=dataset,
        dry_run=False,
        delete=delete,
        jobs=jobs,
        scheduler=scheduler,
        remote=RemoteConfig(),
    )
    summary = run(options, Silent())
    assert summary is not None  # `Silent` agrees
    return summary.out


def mount(
    source: Union[str, "os.PathLike[str]", "Store"],
    mountpoint: str | os.PathLike[str],
    *,
    view: str = "chunks",
    formats: Sequence[str] | None = None,
    cache_ttl: float | None = None,
    cache_size: int | None = None,
    options: Sequence[str] = (),
    allow_other: bool = False,
    uid: int | None = None,
    gid: int | None = None,
    umask: int | None = None,
    fmask: int | None = None,
    dmask: int | None = None,
    follow_symlinks: bool = False,
    xattrs: bool = False,
    log_file: str | os.PathLike[str] | None = None,
    verbose: bool = False,
) -> AbstractContextManager[Path]:
    """Mount `source` on the empty folder `mountpoint` for as long as a `with` block lasts; read-only.

    The source is a path or a URL, as for the command, or any store of zarr-python: in memory, fsspec,
    obstore, Icechunk, or a class of your own. The options are those of `zarrfuse mount`; `cache_ttl` is in
    seconds, `cache_size` in bytes; users, groups and masks are numbers (`0o022`), and `options` are other
    ones of `-o`. Of a store object, names and sizes are kept for a second by default, here and in the
    kernel: what is written to it is seen within two.

    The mount has a process of its own. A store object stays in this process, where a thread reads it, so
    files of the mount must not be mapped into memory here (`mmap`, `numpy.memmap`): in another process they
    may be. If the block ends while files of the mount are open, it warns, and they can no longer be read.

        with zarrfuse.mount(zarr.storage.MemoryStore(...), "mnt", view="images") as mnt:
            subprocess.run(["viewer", mnt / "image.tiff"])

    Raises `zarrfuse.errors.MountError` with the reason, `ValueError` for an unknown view or format, or a
    number that is none, and `TypeError` for what is no source.
    """
    from zarrfuse.config import (  # noqa: PLC0415  # as below
        FOLDER_TTL_S,
        FORMATS,
        VIEWS,
        MountConfig,
        RemoteConfig,
        ShownAccess,
    )
    from zarrfuse.mounts.in_python import mounted  # noqa: PLC0415  # `import zarrfuse` stays fast

    if view not in VIEWS:
        raise ValueError(f"the view {view!r} is not one of {', '.join(VIEWS)}")
    for name in formats or ():
        if name not in FORMATS:
            raise ValueError(f"the format {name!r} is not one of {', '.join(FORMATS)}")
    for name, number, largest in (
        *(("uid", uid, 2**32 - 2), ("gid", gid, 2**32 - 2)),
        *(("umask", umask, 0o777), ("fmask", fmask, 0o777), ("dmask", dmask, 0o777)),
    ):
        if number is not None and not 0 <= number <= largest:
            raise ValueError(f"the {name} {number} is not between 0 and {largest}")
    is_named = isinstance(source, str | os.PathLike)
    config = MountConfig(
        source="",
        mountpoint=os.fspath(mountpoint),
        view=view,
        options=tuple(options),
        allow_other=allow_other,
        shown_access=ShownAccess(
            uid, gid, umask if fmask is None else fmask, umask if dmask is None else dmask
        ),
        follow_symlinks=follow_symlinks,
        xattrs=xattrs,
        cache_ttl_s=cache_ttl,
        formats=FORMATS if formats is None else tuple(formats),
        cache_bytes=cache_size,
        # A store of this process costs little to ask.
        remote=RemoteConfig() if is_named else RemoteConfig(ttl_s=FOLDER_TTL_S),
        log_file=None if log_file is None else os.path.abspath(log_file),
        verbose=verbose,
    )
    return mounted(source, config)


def export(
    array: str | os.PathLike[str],
    folder: str | os.PathLike[str],
    *,
    format: str = "tiff",
    compression: str | None = None,
    shard: Sequence[int] | None = None,
    tile: Sequence[int] | None = None,
) -> None:
    """Write the Zarr array at `array`, a path or a URL, as a Zarr array whose chunks are TIFF files.

    `array` and the options are those of `zarrfuse export`: `shard` is the shape of a file, `tile` the
    height and width of a tile. `folder` must be new or empty, or have an interrupted export with the same
    arguments, which goes on.

    Raises `zarrfuse.errors.SourceError` if there is no such array, and `zarrfuse.errors.ZarrfuseError` or
    `OSError` with the reason if it cannot be read or written in this way.
    """
    from zarrfuse.exporting.plan import Options  # noqa: PLC0415  # `import zarrfuse` stays fast
    from zarrfuse.exporting.run import export_array  # noqa: PLC0415

    options = Options(
        format,
        compression,
        None if shard is None else tuple(shard),
        None if tile is None else tuple(tile),
    )
    export_array(os.fspath(array), os.fspath(folder), options)
