"""What `zarrfuse index` is asked for, and what it answers.

Used by `run`, `update`, `cli` and `zarrfuse.index`.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field

from zarrfuse.config import RemoteConfig
from zarrfuse.indexing.target import Way
from zarrfuse.stores.opening import is_url


@dataclass(frozen=True, slots=True)
class Options:
    """What is to be indexed, and how. Paths are absolute.

    Attributes:
        folder: The folder of the files: a path or a URL.
        out: The dataset; None: beside the folder, or in it if the files have the names of chunks.
        pattern: Of the names of the files; None: found out.
        dims: The names of all dimensions; None: by pattern and files.
        way: How files get the keys of chunks.
        ngff: Whether the dataset is a group with OME-NGFF metadata.
        dataset: The dataset in each HDF5 file.
        dry_run: Whether nothing is to be written.
        delete: Whether chunks may be deleted that may be the only copies of their pixels.
        processes: How many processes of this machine work.
        scheduler: The Dask scheduler that works instead.
        remote: How URLs are read and written.
    """

    folder: str
    out: str | None = None
    pattern: str | None = None
    dims: tuple[str, ...] | None = None
    way: Way = Way.LINK
    ngff: bool = False
    dataset: str | None = None
    dry_run: bool = False
    delete: bool = False
    processes: int = 1
    scheduler: str | None = None
    remote: RemoteConfig = field(default_factory=RemoteConfig, repr=False)


def options_of(
    folder: str,
    out: str | None,
    *,
    pattern: str | None,
    dims: Sequence[str] | None,
    way: str,
    ngff: bool,
    dataset: str | None,
    dry_run: bool,
    delete: bool,
    jobs: int,
    scheduler: str | None,
    remote: RemoteConfig,
) -> Options:
    """The options for arguments as users give them, with relative paths."""
    return Options(
        _absolute(folder),
        None if out is None else _absolute(out),
        pattern,
        None if dims is None else tuple(dims),
        Way(way),
        ngff,
        dataset,
        dry_run,
        delete,
        jobs,
        scheduler,
        remote,
    )


def _absolute(path: str) -> str:
    return path.rstrip("/") if is_url(path) else os.path.realpath(path)


@dataclass(frozen=True, slots=True)
class Summary:
    """What was indexed: where, as what, and how many files and bytes were read."""

    out: str
    names: tuple[str, ...]
    shape: tuple[int, ...]
    data_type: str
    files: int
    read: int
    header_bytes: int
    file_bytes: int
