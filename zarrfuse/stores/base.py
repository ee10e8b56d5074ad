"""What a store is: the one small protocol that everything above reads bytes through.

A key is a `str` of `/`-separated names without a leading slash; `""` is the root folder. Names that
are not UTF-8 carry surrogates, as `os.fsdecode` makes them. Every method may be called from any
thread, and raises an exception of `zarrfuse.errors` or an `OSError`.

**`wait`.** A method with `wait=False` answers only from what is at hand (memory, the page cache, the
kernel's name cache) and raises `BlockingIOError` otherwise. The mount asks that way first, from its
event loop, and asks again in a thread: a hop to a thread costs more than most answers do.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from enum import IntEnum
from stat import S_IFDIR, S_IFLNK, S_IFREG
from typing import Protocol, TypeAlias

import msgspec

from zarrfuse.errors import NotSupported
from zarrfuse.stores.access import Access, Change, both

OWN_NAME = ".zarrfuse"
"""The folder at the root of a store in which zarrfuse keeps what it has yet to store. No listing of
the root shows it."""


class Kind(IntEnum):
    """What a name stands for; the values are the file type bits of `st_mode`."""

    FILE = S_IFREG
    FOLDER = S_IFDIR
    LINK = S_IFLNK


class Entry(msgspec.Struct, gc=False):
    """One name in a folder. A struct in C: a folder of 100,000 is made in one pass, and time counts.

    `size` is in bytes (0 for a folder), `mtime_ns` in nanoseconds since 1970. `denied` marks a name
    that is shown but that nobody may open (a symlink that leads out of the store). `identity` is that of
    a file, which another file does not have; 0 where that is not told,
    and then another size or time makes another file. `access`: mode and owner; None where nobody but who
    serves it owns it. `links`: how many names the file has. `ctime_ns` and `atime_ns`: of the last change
    of its attributes, and of the last access; 0 where that is not told.
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
    """See `Entry.identity`. Another one than that of the entry: the file was replaced meanwhile."""
    is_live: bool = False
    """Whether it is a stored file that changes in place: size and time are those of now."""

    def seen(self) -> Entry:
        """Its entry at one moment, without a name."""
        at_once = self.size, self.mtime_ns
        return Entry("", Kind.FILE, *at_once, identity=self.identity, access=self.access)

    def readinto(self, buffer: memoryview, offset: int, *, wait: bool = True) -> None:
        """Fill all of `buffer` with the bytes from `offset` on.

        The caller asks for no byte at or behind `size`. Raises `Stale` when the stored object has
        become shorter or is another one, and `BlockingIOError` when `wait` is false and the bytes
        are not at hand (the buffer may then be partly filled).
        """

    def close(self) -> None:
        """Let go of what is held; reading afterwards is an error."""


class Store(Protocol):
    """Where bytes live. Implementations: `local.LocalStore`, `zip.ZipStore`."""

    permanent: bool
    """Whether what has been seen once stays as it is, so that kernels may keep it without limit."""

    def scan(self, folder: str, *, follow: bool = True) -> Iterator[Entry]:
        """All names of a folder with kinds, sizes and times, in one pass, as they are found.

        `follow`: a symlink to a file has the entry of that file, if the store can follow it; without,
        it is a `Kind.LINK`. Raises `NotFound`, `NotAFolder`, `Denied` before the first one. FIFOs,
        sockets and devices are left out.
        """

    def list(self, folder: str) -> dict[str, Entry]:
        """What `scan` finds, by name."""
        return {entry.name: entry for entry in self.scan(folder)}

    def stat(self, key: str, *, wait: bool = True, follow: bool = True) -> Entry:
        """The entry of one key or folder; `follow`: see `scan`.

        Raises `NotFound`; a file in the middle of a key is that too.
        """

    def open(self, key: str, *, wait: bool = True) -> Reader:
        """Open a key for reading. Raises `NotFound`, `Denied`."""

    def is_still(self, key: str, reader: Reader, *, wait: bool = True) -> bool:
        """Whether what was opened is still what is stored under the key; yes, if that cannot be told."""
        return True

    def readlink(self, key: str) -> str:
        """Where a name of `Kind.LINK` points to: a relative path that stays in the store."""

    def space(self) -> tuple[int, int]:
        """(bytes in all, bytes free) of what the store lies on, for `statfs`."""

    def close(self) -> None:
        """Let go of everything; open readers may fail afterwards."""


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
        """Wait until what is stored of it will outlive the machine."""


Like: TypeAlias = str | int | Access
"""Owner and mode of a new file: those of the file that has the key now, or of a new file under that
key; those of an open file (a descriptor); or these."""


class WritableStore(Store, Protocol):
    """A store that can be written: `local.writing.WritableLocalStore`, `object.store.ObjectStore`.

    Names are changed at once or not at all, also when a process dies in between: after each of these
    calls there is what was before or what was asked for.
    """

    in_place: bool
    """Whether bytes of a stored file can be changed. Where not, `edit` raises `NotSupported`, and
    files are stored whole, by `put`."""

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
        """Open a stored file in place; `write=False` to read only, as it is now and will be.

        `create`: make an empty one if there is none; `exclusive`: raise `Exists` if there is one.
        `given`: mode and owner of a new one, as far as they can be given; without, it belongs to who
        owns the folder, with the mode that the umask leaves.
        Raises `NotFound` (the file, or the folder it would lie in), `IsAFolder`, `Denied`.
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

        A key of before is replaced, its readers keep what they opened; with `new`, raises `Exists`
        instead. `sync`: the bytes will outlive the machine (the name, after `sync_folder`).
        `mtime_ns`: with which time, see `change`; now unless given. `like`: with which owner and
        mode, see `dress`; those of what it replaces unless given. Raises `NotFound` if there is no
        folder for it, in a store that has folders of its own.
        """

    def remove(self, key: str) -> None:
        """Delete a file. Raises `NotFound`, `IsAFolder`."""

    def rename(self, key: str, new_key: str, *, replace: bool = True) -> None:
        """Give a file or folder another name. Of files, what was there is replaced at once.

        Raises `Exists` if `replace` is false and there is something, `NotFound`, `NotEmpty` for a
        folder that would replace one with something in it, `IsAFolder`, `NotAFolder`. A store
        without folders of its own raises `NotSupported` for folders.
        """

    def dress(self, key: str, like: Like) -> None:
        """Give a temporary file the owner and mode of `like`, before it is renamed.

        Raises `NotFound` if `like` is a key for which there is no folder. Does nothing in a store
        whose files have no modes.
        """
        return

    def link(self, key: str, new_key: str) -> None:
        """Store the file `key` under a second name. Raises `Exists`, `NotFound`."""

    def symlink(self, key: str, text: str, given: Access | None = None) -> None:
        """Make a symlink that says `text`; `given`: its owner and group, see `edit`.

        Raises `Exists`, `NotFound`, `Denied` if it would lead out of the store, `NotSupported` where
        there are none.
        """
        raise NotSupported(f"{key}: there are no symlinks in this store")

    def make_folder(self, key: str, given: Access | None = None) -> None:
        """Make an empty folder; `given`: see `edit`.

        Raises `Exists`, `NotFound` if there is none to make it in.
        """

    def remove_folder(self, key: str) -> None:
        """Delete an empty folder. Raises `NotEmpty`, `NotFound`, `NotAFolder`."""

    def change(self, key: str, change: Change, *, follow: bool = True) -> None:
        """Set times, mode and owner of a file or folder; `follow`: of what `stat` tells of then.

        What has no time of its own ignores that; a store whose files have no modes raises `NotSupported`.
        """

    def sync_folder(self, key: str) -> None:
        """Wait until the names in a folder will outlive the machine."""

    def same_folders(self) -> AbstractContextManager[None]:
        """A block in which this thread need not look up a folder each time it changes names there."""
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

    With `limit` (bytes) a larger one raises `ValueError` before anything is read.
    """
    with opened(store, key) as reader:
        if limit is not None and reader.size > limit:
            raise ValueError(f"{key} has {reader.size} bytes, more than the {limit} that are read")
        buffer = bytearray(reader.size)
        if buffer:
            reader.readinto(memoryview(buffer), 0)
        return bytes(buffer)
