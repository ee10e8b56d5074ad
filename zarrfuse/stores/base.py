"""The protocols of stores and of open files, through which all other packages read and write bytes.

A key is a `str` of `/`-separated names without a leading slash; `""` is the root folder. Names that
are not UTF-8 have surrogates, as `os.fsdecode` makes them. Every method may be called from any
thread, and raises an exception of `zarrfuse.errors` or an `OSError`.

**`wait`.** With `wait=False` a method answers only from memory, the page cache or the kernel's dentry
cache, and raises `BlockingIOError` otherwise. The mount calls it so from its event loop first, and then
again in a thread: handing a call to a thread costs more than most answers.
"""

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from enum import IntEnum
from stat import S_IFDIR, S_IFLNK, S_IFREG
from typing import Protocol, TypeAlias

import msgspec

from zarrfuse.errors import NotFound, NotSupported
from zarrfuse.stores.access import Access, Change, both
from zarrfuse.stores.cache import ByteCache

UNKNOWN_SIZE = -1
"""`Entry.size` of a file that is listed by a store which does not know its size, nor whether it is there.
`Store.stat` does: it asks."""

OWN_NAME = ".zarrfuse"
"""The folder at the root of a store with the workspace of zarrfuse. Listings leave it out."""


class Kind(IntEnum):
    """The type of an entry; the values are the file type bits of `st_mode`."""

    FILE = S_IFREG
    FOLDER = S_IFDIR
    LINK = S_IFLNK


class Entry(msgspec.Struct, gc=False):
    """One name in a folder. A struct in C, since a listing makes 100,000 of them.

    Attributes:
        name: The name.
        kind: File, folder or symlink.
        size: Bytes of a file; 0 for a folder. `UNKNOWN_SIZE` only in listings.
        mtime_ns: Modification time, ns since 1970.
        denied: Whether it is shown but cannot be opened: a symlink that leads out of the store.
        identity: The identity of the file, which no other file has. 0 if the store has none: a file with
            another size or time then counts as another file.
        access: Mode and owner; None if the store has none: it belongs to the user of the daemon.
        links: The number of names of the file.
        ctime_ns: Change time, ns since 1970; 0 if not known.
        atime_ns: Access time, ns since 1970; 0 if not known.
    """

    name: str
    kind: Kind
    size: int
    mtime_ns: int
    denied: bool = False
    identity: int = 0
    access: Access | None = None
    links: int = 1
    ctime_ns: int = 0
    atime_ns: int = 0


class Reader(Protocol):
    """An open file. `size` and `mtime_ns` are those of the moment it was opened, unless it `is_live`."""

    __slots__ = ()

    size: int
    """Bytes in it."""
    mtime_ns: int
    """When it was last changed, in nanoseconds since 1970."""
    access: Access | None = None
    """Mode and owner; None where they are not known."""
    identity: int = 0
    """See `Entry.identity`. If it differs from that of the entry, the file was replaced meanwhile."""
    is_live: bool = False
    """Whether it is a stored file that changes in place: size and time are those of now."""
    is_remote: bool = False
    """Whether its bytes come from a server, and `prefetch` does something."""

    def prefetch(self, start: int, stop: int) -> None:
        """Begin to fetch bytes [start, stop), which will be read at once. Returns without waiting."""
        return

    def seen(self) -> Entry:
        """Its entry at one moment, without a name."""
        at_once = self.size, self.mtime_ns
        return Entry("", Kind.FILE, *at_once, identity=self.identity, access=self.access)

    def readinto(self, buffer: memoryview, offset: int, *, wait: bool = True) -> None:
        """Fill all of `buffer` with the bytes from `offset` on, which must lie below `size`.

        Raises `Stale` if the stored file has become shorter or is another one, and `BlockingIOError` if
        `wait` is false and it would have to wait (a part of the buffer may be filled then).
        """

    def close(self) -> None:
        """Release its resources; reading afterwards is an error."""


class Store(Protocol):
    """A store of bytes. Implementations: `local.LocalStore`, `zip.ZipStore`, `remote.RemoteStore`."""

    permanent: bool
    """Whether stored data never changes, so that the kernel may cache it without limit."""
    cache: ByteCache | None = None
    """The cache of a store that has one, which what is decoded of its bytes shares."""
    keeps_names: bool = False
    """Whether it keeps names for a time of its own, so that the kernel need not."""
    lists_all: bool = True
    """Whether what is not listed is not there."""

    def look_up_soon(self, keys: Iterable[str], *, to_read: bool = False) -> None:
        """Say that `stat` of these keys follows or, `to_read`, that they will be read from the first byte.

        Returns without waiting.
        """
        return

    def status(self) -> dict[str, object]:
        """What the control files tell of requests and caches; empty if there is nothing to tell."""
        return {}

    def scan(self, folder: str, *, follow: bool = True) -> Iterator[Entry]:
        """Yield the entries of a folder in one pass, as they are found.

        With `follow`, a symlink to a file has the entry of that file, if the store can follow it; without,
        it is a `Kind.LINK`. FIFOs, sockets and devices are left out. Raises `NotFound`, `NotAFolder`,
        `Denied` before the first entry.
        """

    def list(self, folder: str) -> dict[str, Entry]:
        """The entries that `scan` yields, by name."""
        return {entry.name: entry for entry in self.scan(folder)}

    def stat(self, key: str, *, wait: bool = True, follow: bool = True) -> Entry:
        """The entry of one key or folder; `follow`: see `scan`.

        Raises `NotFound`, also for a key that leads through a file.
        """

    def open(self, key: str, *, wait: bool = True) -> Reader:
        """Open a key for reading. Raises `NotFound`, `Denied`."""

    def is_still(self, key: str, reader: Reader, *, wait: bool = True) -> bool:
        """Whether an opened file is still stored under the key; True if that is not known."""
        return True

    def readlink(self, key: str) -> str:
        """The target of a symlink: a relative path within the store."""

    def space(self) -> tuple[int, int]:
        """(total bytes, free bytes) of the file system of the store, for `statfs`."""

    def close(self) -> None:
        """Release all resources; open readers may fail afterwards."""


class Writer(Reader, Protocol):
    """An open file that can be written; `size` and `mtime_ns` are those of now.

    If it `is_live`, it is the stored file itself: all who have it open see what is written. Else it is a
    working copy (`transactions.working_copy.WorkingCopy`), of which nothing is stored yet.
    """

    __slots__ = ()

    def write(self, data: bytes | memoryview, offset: int) -> None:
        """Write all of `data` at `offset`; a gap in front of it becomes zeros."""

    def truncate(self, size: int) -> None:
        """Make it `size` bytes long."""

    def change(self, change: Change) -> None:
        """Set times, mode and owner; of a working copy, the time with which it will be stored."""

    def sync(self) -> None:
        """Make the stored bytes durable (`fsync`)."""


Like: TypeAlias = str | int | Access
"""Owner and mode of a new file: those of the file at a key (`str`), or of a new file there; those of an
open file (`int`, a descriptor); or given ones."""


class WritableStore(Store, Protocol):
    """A store that can be written: `local.writing.WritableLocalStore`, `object.store.ObjectStore`.

    Each call that changes names is atomic, also if the process is killed: the store is as before the call,
    or as after it.
    """

    in_place: bool
    """Whether stored files can be changed in place. If not, `edit` raises `NotSupported`, and `put` stores
    files whole."""

    def edit(
        self,
        key: str,
        *,
        write: bool = True,
        create: bool = False,
        exclusive: bool = False,
        given: Access | None = None,
        wait: bool = True,
    ) -> Writer:
        """Open a stored file in place; with `write=False`, to read it and see later changes.

        `create`: create it if it is missing; `exclusive`: raise `Exists` if it is not. `given`: mode and
        owner of a new file, as far as they can be set; None: the owner of the folder, and the mode by the
        umask. Raises `NotFound` (the file, or its folder), `IsAFolder`, `Denied`.
        """

    def put(
        self,
        key: str,
        source: int,
        start: int,
        stop: int,
        *,
        sync: bool = True,
        new: bool = False,
        mtime_ns: int | None = None,
        like: Like | None = None,
    ) -> None:
        """Store bytes [start, stop) of the open file `source` (a descriptor) under `key`.

        Replaces a stored file, whose readers keep it; with `new`, raises `Exists` instead. `sync`: make the
        bytes durable (`sync_folder` does the name). `mtime_ns`: its time; None: now. `like`: its owner and
        mode; None: those of the replaced file. Raises `NotFound` if its folder is missing, in a store with
        folders.
        """

    def remove(self, key: str) -> None:
        """Delete a file. Raises `NotFound`, `IsAFolder`."""

    def rename(self, key: str, new_key: str, *, replace: bool = True) -> None:
        """Rename a file or folder. A file atomically replaces an existing one.

        Raises `Exists` if the name is taken and `replace` is false, `NotEmpty` for a folder that would
        replace one that is not empty, `NotFound`, `IsAFolder`, `NotAFolder`. A store without folders raises
        `NotSupported` for folders.
        """

    def dress(self, key: str, like: Like) -> None:
        """Give a temporary file the owner and mode of `like`, before it is renamed.

        Raises `NotFound` if the folder of the key `like` is missing. Does nothing in a store without modes.
        """
        return

    def link(self, key: str, new_key: str) -> None:
        """Store the file `key` under a second name. Raises `Exists`, `NotFound`."""

    def symlink(self, key: str, text: str, given: Access | None = None) -> None:
        """Make a symlink with the target `text`; `given`: its owner and group, see `edit`.

        Raises `Exists`, `NotFound`, `Denied` if it would lead out of the store, and `NotSupported` in a
        store without symlinks.
        """
        raise NotSupported(f"{key}: there are no symlinks in this store")

    def make_folder(self, key: str, given: Access | None = None) -> None:
        """Make an empty folder; `given`: see `edit`.

        Raises `Exists`, and `NotFound` if the folder above is missing.
        """

    def remove_folder(self, key: str) -> None:
        """Delete an empty folder. Raises `NotEmpty`, `NotFound`, `NotAFolder`."""

    def change(self, key: str, change: Change, *, follow: bool = True) -> None:
        """Set times, mode and owner of a file or folder; `follow`: see `stat`.

        A time is ignored for what has none; a store without modes raises `NotSupported`.
        """

    def sync_folder(self, key: str) -> None:
        """Make the names in a folder durable (`fsync`)."""

    def same_folders(self) -> AbstractContextManager[None]:
        """A block in which this thread keeps the folders open in which it changes names."""
        return nullcontext()


def entry_of(known: Entry, reader: Reader) -> Entry:
    """The entry of an open file as it is now. It permits nothing that the `known` entry does not."""
    now = reader.seen()
    now.name, now.links = known.name, known.links
    if not reader.is_live:
        now.ctime_ns, now.atime_ns = known.ctime_ns, known.atime_ns
    if now.access != known.access:
        now.access = both(now.access, known.access)
    return now


def is_there(store: Store, key: str) -> bool:
    """Whether a key, or a folder, is stored. Raises what `Store.stat` raises but `NotFound`."""
    try:
        store.stat(key)
    except NotFound:
        return False
    return True


@contextmanager
def opened(store: Store, key: str) -> Iterator[Reader]:
    """`store.open(key)`, closed at the end of the block."""
    reader = store.open(key)
    try:
        yield reader
    finally:
        reader.close()


def read(store: Store, key: str, *, limit: int | None = None) -> bytes:
    """All bytes of a key; for documents, not for chunks.

    Raises `ValueError` for more than `limit` bytes, before anything is read.
    """
    with opened(store, key) as reader:
        if limit is not None and reader.size > limit:
            raise ValueError(f"{key} has {reader.size} bytes, more than the {limit} that are read")
        buffer = bytearray(reader.size)
        if buffer:
            reader.readinto(memoryview(buffer), 0)
        return bytes(buffer)
