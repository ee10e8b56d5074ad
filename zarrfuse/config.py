"""The options of a mount, as frozen data. Made by `cli`, read by `mounts`, `views` and `fuse`."""

import math
from dataclasses import dataclass, field, replace


@dataclass(frozen=True, slots=True)
class ViewKind:
    """A view: what it shows, for `--help`; whether it can be written; whether it decodes chunks."""

    shows: str
    is_writable: bool = True
    decodes: bool = False


ALL = "all"
VIEWS = {
    "chunks": ViewKind("one file for each chunk"),
    "plain": ViewKind("a core Zarr v3 store"),
    "images": ViewKind("TIFF, NPY, PNG and OME-TIFF", is_writable=False, decodes=True),
    "raw": ViewKind("every stored key"),
    ALL: ViewKind("each of these as a folder", decodes=True),
}
"""The views by name; `zarrfuse.views.NAME.root` makes the root of each."""

DEFAULT_VIEW = "chunks"

LOG_FORMATS = ("text", "json")

FORMATS = ("tiff", "npy", "png", "ome")
"""The renderings of the `images` view: arrays and chunks, arrays, pictures of arrays, pyramids."""

FOLDER_TTL_S = 1.0  # the folder may still be written
PERMANENT_TTL_S = math.inf


@dataclass(frozen=True, slots=True)
class Tuning:
    """Numbers that were measured (`docs/performance.md`), in one place."""

    store_timeout_s: float = 30.0
    """A store call that takes longer is ETIMEDOUT."""
    threads: int = 80
    """Store calls at one time, at most half of them for one folder, which may hang."""
    readahead_kib: int = 1024
    """The kernel's read-ahead, if the mount may set it; the default is 128."""
    max_background: int = 64
    """Read-ahead requests at one time, if the mount may set it; the kernel's default is 12."""
    pushed_bytes: int = 64 * 1024
    """Files of at most this size are pushed into the kernel's page cache when they are opened."""
    eager: bool = True
    """Wait for requests without parking in trio (`fuse.eager`)."""


@dataclass(frozen=True, slots=True)
class RemoteConfig:
    """How a remote source is asked, and what of it is kept. Times in seconds, sizes in bytes."""

    cache_bytes: int | None = None
    """Blocks in memory; None: by the memory of the machine."""
    cache_dir: str | None = None
    """The folder of blocks on the disk; None: none."""
    cache_disk_bytes: int = 10 << 30
    ttl_s: float = 60.0
    """How long listings, metadata and absence are kept."""
    timeout_s: float = 30.0
    """A request, with its repetitions, that takes longer is ETIMEDOUT."""
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """Sent with each request over HTTP."""
    profile: str | None = None
    """Of `~/.aws`."""
    settings: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """Settings of the library, such as `endpoint`, `region`, `skip_signature`."""


@dataclass(frozen=True, slots=True)
class ShownAccess:
    """Owner and modes that a mount shows in place of the stored ones; None: those that are stored.

    Attributes:
        uid: The owner of everything.
        gid: Its group.
        file_mask: The permission bits that files have not; they have all others.
        folder_mask: The same of folders.
    """

    uid: int | None = None
    gid: int | None = None
    file_mask: int | None = None
    folder_mask: int | None = None


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
    """The folder of spool files; None: the workspace of the store."""
    foreground: bool = False
    allow_other: bool = False
    shown_access: ShownAccess = field(default_factory=ShownAccess)
    follow_symlinks: bool = False
    xattrs: bool = False
    bookmark: bool = False
    """Whether the side bar of file managers shows the mount."""
    cache_ttl_s: float | None = None
    """How long the kernel may cache names and attributes; None: by the kind of store."""
    formats: tuple[str, ...] = FORMATS
    """The renderings of the `images` view."""
    cache_bytes: int | None = None
    """The size of the cache of decoded chunks; None: by the memory of the machine."""
    remote: RemoteConfig = field(default_factory=RemoteConfig)
    """How a URL is asked; for what the mount has, too, see `asking`."""
    log_file: str | None = None
    metrics: str | None = None
    """HOST:PORT or PORT where counters are served to Prometheus; None: nowhere."""
    log_format: str = "text"
    """Or `json`: an object for each line."""
    verbose: bool = False
    tuning: Tuning = field(default_factory=Tuning)

    @property
    def asking(self) -> RemoteConfig:
        """`remote` with the cache size and the time-out of the mount, and its TTL if it has one."""
        ttl_s = self.remote.ttl_s if self.cache_ttl_s is None else self.cache_ttl_s
        timeout_s = self.tuning.store_timeout_s
        return replace(self.remote, cache_bytes=self.cache_bytes, ttl_s=ttl_s, timeout_s=timeout_s)
