"""What was asked for, as frozen data. Made by `cli`, read by `daemon` and `fuse`."""

import math
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ViewKind:
    """A view that can be mounted: what it shows, and whether it can be written and decodes chunks."""

    shows: str
    is_writable: bool = True
    decodes: bool = False


ALL = "all"
VIEWS = {
    "chunks": ViewKind("a file for each"),
    "plain": ViewKind("a core Zarr v3 store"),
    "images": ViewKind("TIFF, NPY, PNG and OME-TIFF", is_writable=False, decodes=True),
    "raw": ViewKind("what is stored"),
    ALL: ViewKind("these as folders", decodes=True),
}
"""The views by name; `zarrfuse.views.NAME.root` makes the root of each."""

DEFAULT_VIEW = "chunks"

FORMATS = ("tiff", "npy", "png", "ome")
"""What the `images` view renders: arrays and chunks, arrays, their pictures, and pyramids."""

FOLDER_TTL_S = 1.0  # somebody may still be writing the folder
PERMANENT_TTL_S = math.inf


@dataclass(frozen=True, slots=True)
class Tuning:
    """Numbers that were measured (`docs/performance.md`), in one place."""

    store_timeout_s: float = 30.0
    """A store that has not answered by then is ETIMEDOUT to the program that asked."""
    threads: int = 80
    """Store calls at one time, half of them for one folder: what hangs there does not hold the others."""
    readahead_kib: int = 1024
    """What the kernel reads ahead, where the mount may set it; its own default is 128."""
    max_background: int = 64
    """Read-ahead requests at one time, where the mount may set it; the kernel's default is 12."""
    pushed_bytes: int = 64 * 1024
    """Files up to this size are given to the kernel's page cache when they are opened."""
    eager: bool = True
    """Answer requests without parking in trio between them (`eager.py`)."""


@dataclass(frozen=True, slots=True)
class MountConfig:
    """One mount. Paths are absolute; times are in seconds; sizes in bytes."""

    source: str
    mountpoint: str
    view: str = DEFAULT_VIEW
    options: tuple[str, ...] = ()
    """Options for the kernel and libfuse, as `-o` takes them."""
    read_write: bool = False
    spool_dir: str | None = None
    """Where what is written waits to be stored; None: beside the store."""
    foreground: bool = False
    allow_other: bool = False
    follow_symlinks: bool = False
    xattrs: bool = False
    cache_ttl_s: float | None = None
    """How long the kernel may keep names and attributes; None: what suits the store."""
    formats: tuple[str, ...] = FORMATS
    """What the `images` view shows."""
    cache_bytes: int | None = None
    """How many bytes of decoded chunks to keep; None: what suits the machine."""
    log_file: str | None = None
    verbose: bool = False
    tuning: Tuning = field(default_factory=Tuning)
