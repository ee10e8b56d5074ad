"""A dataset in a folder of this machine: files become links, reflinks or copies.

Used by `opening`.
"""

import errno
import fcntl
import filecmp
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from uuid import uuid4

from zarrfuse.indexing.files import Files, FoundFile, walk
from zarrfuse.indexing.target import LARGEST_DOCUMENT, OWN, Target, TargetError, Way, are_same
from zarrfuse.stores.base import OWN_NAME, Entry, opened
from zarrfuse.stores.descriptor import sync_file_system
from zarrfuse.stores.opening import is_url, open_store, printable_source

_PIECE_BYTES = 8 << 20
_FICLONE = 0x40049409
_PLAN, _LOCK = f"{OWN}/plan", f"{OWN}/lock"
_STEPS_NS = (100, 1000, 10**7, 10**9, 2 * 10**9)
"""Of the times of NTFS and SMB, others, exFAT, old file systems, and FAT."""
_NOT_WRITTEN = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.ENOTDIR, errno.EDQUOT)


@dataclass(frozen=True, slots=True)
class LocalTarget(Target):
    """A dataset in a folder of this machine."""

    folder: str
    way: Way

    def stored(self) -> dict[str, Entry]:
        """See `Target`."""
        if not os.path.lexists(self.folder):
            return {}
        if not os.path.isdir(self.folder):
            raise TargetError(f"{self.folder} exists, and is no folder: give another --out")
        with closing(open_store(self.folder, follow_symlinks=True)) as store:
            return dict(walk(store))

    def plan(self) -> bytes | None:
        """See `Target`."""
        return self.get(_PLAN)

    @contextmanager
    def begun(
        self,
        files: Files,
        changed: Sequence[FoundFile],
        stored: Mapping[str, Entry],
        plan: bytes,
    ) -> Iterator[None]:
        """See `Target`."""
        self._check_way(files, changed)
        made = self._missing_folders()
        is_locked = False
        with ExitStack() as stack:
            try:
                os.makedirs(self._path(OWN), exist_ok=True)
                stack.enter_context(self.locked())
                is_locked = True
                if not are_same(self.stored(), stored):
                    raise self._is_taken()
                if self.way is Way.LINK:
                    for path in _one_of_each_device(files, changed):
                        trial = self._new_path()
                        self._place(files, path, trial)
                        os.remove(trial)
                self.put(_PLAN, plan)
            except BaseException as error:
                if is_locked and self.plan() is None:
                    os.remove(self._path(_LOCK))
                for folder in (self._path(OWN), self._path(OWN_NAME), *reversed(made)):
                    with suppress(OSError):  # others use it by now
                        os.rmdir(folder)
                if isinstance(error, OSError) and error.errno in _NOT_WRITTEN:
                    raise TargetError(
                        f"{self.folder} cannot be written: {error.strerror}. Give another --out"
                    ) from error
                raise
            yield

    @contextmanager
    def locked(self) -> Iterator[None]:
        """See `Target`. `end` deletes the file of the lock."""
        fd = os.open(self._path(_LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise self._is_taken() from None
            if not os.fstat(fd).st_nlink:  # that process has just ended
                raise self._is_taken()
            yield
        finally:
            os.close(fd)

    def _is_taken(self) -> TargetError:
        return TargetError(f"another process writes {self.folder}: run it again")

    def _check_way(self, files: Files, changed: Sequence[FoundFile]) -> None:
        if not changed:
            return
        if is_url(files.address) and self.way is not Way.COPY:
            raise TargetError(
                f"{printable_source(files.address)} is not on this machine, so its files cannot be "
                f"linked or moved into {self.folder}: use --copy"
            )
        if self.way is Way.MOVE:
            for folder in {os.path.dirname(file.path) for file in changed}:
                path = os.path.join(files.address, folder)
                if not os.access(path, os.W_OK | os.X_OK):
                    raise TargetError(
                        f"files cannot be moved out of {path.rstrip('/')}, which is read-only: use "
                        "--link or --copy"
                    )

    def _missing_folders(self) -> list[str]:
        """The dataset's folder and those above it that do not exist yet, the uppermost first."""
        missing: list[str] = []
        folder = self.folder
        while not os.path.lexists(folder):
            missing.insert(0, folder)
            folder = os.path.dirname(folder)
        return missing

    def adopt(self, files: Files, path: str, keys: Sequence[str]) -> None:
        """See `Target`. All keys are links of one file, where there are links."""
        for key in keys:
            with self._replaced(key) as new:
                if key == keys[0]:
                    self._place(files, path, new)
                elif not _linked(self._path(keys[0]), new):
                    shutil.copy2(self._path(keys[0]), new)

    def put(self, key: str, data: bytes, mtime_ns: int | None = None) -> None:
        """See `Target`."""
        with self._replaced(key) as new:
            with open(new, "xb") as file:
                file.write(data)
            if mtime_ns is not None:
                os.utime(new, ns=(mtime_ns, mtime_ns))

    def get(self, key: str) -> bytes | None:
        """See `Target`."""
        try:
            with open(self._path(key), "rb") as file:
                return file.read(LARGEST_DOCUMENT)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def remove(self, key: str) -> None:
        """See `Target`."""
        with suppress(FileNotFoundError):
            os.remove(self._path(key))

    def delete_source(self, files: Files, path: str) -> None:
        """See `Target`."""
        os.remove(os.path.join(files.address, path))

    def is_current(self, index: Entry, main: Entry, *, in_place: bool) -> bool:
        """See `Target`. An index has the time of its file."""
        del in_place
        return index.mtime_ns == main.mtime_ns

    def is_same(self, main: Entry, file: FoundFile) -> bool:
        """See `Target`. Links and copies have the time of the file, as exact as the file system has it."""
        times = {file.mtime_ns, *(file.mtime_ns // step * step for step in _STEPS_NS)}
        return main.size == file.size and main.mtime_ns in times

    def may_be_same(self, main: Entry, file: FoundFile) -> bool:
        """See `Target`."""
        return self.is_same(main, file)

    def not_in(self, files: Files, keys: Sequence[str]) -> list[str]:
        """See `Target`."""
        there = set() if is_url(files.address) else {_identity(p) for p in files.local_paths()}
        return [key for key in keys if _identity(self._path(key)) not in there]

    def has_bytes_of(self, files: Files, path: str, key: str) -> bool:
        """See `Target`."""
        source, stored = os.path.join(files.address, path), self._path(key)
        return os.path.samefile(source, stored) or filecmp.cmp(source, stored, shallow=False)

    def sync(self) -> None:
        """See `Target`."""
        sync_file_system(self.folder)

    def end(self) -> None:
        """See `Target`."""
        shutil.rmtree(self._path(OWN), ignore_errors=True)
        with suppress(OSError):  # a mount may have its workspace there
            os.rmdir(self._path(OWN_NAME))

    def _path(self, key: str) -> str:
        return os.path.join(self.folder, key)

    def _new_path(self) -> str:
        """A path that nobody uses, in a folder that `end` deletes."""
        return self._path(f"{OWN}/{uuid4().hex}")

    @contextmanager
    def _replaced(self, key: str) -> Iterator[str]:
        """The path for a new file, which the block makes; it gets the key if the block raises nothing."""
        new, where = self._new_path(), self._path(key)
        try:
            yield new
            try:
                os.replace(new, where)
            except FileNotFoundError:  # the first file of a folder
                os.makedirs(os.path.dirname(where), exist_ok=True)
                os.replace(new, where)
        finally:
            with suppress(
                FileNotFoundError
            ):  # a link to the file that has the key stays, see rename(2)
                os.remove(new)

    def _place(self, files: Files, path: str, where: str) -> None:
        if is_url(files.address):
            _download(files, path, where)
            return
        source = os.path.realpath(
            os.path.join(files.address, path)
        )  # links are made to symlinks, too
        if self.way is not Way.COPY and _linked(source, where):
            return
        if _cloned(source, where):
            return
        if self.way is Way.LINK:
            raise TargetError(
                f"{source} cannot be linked into {self.folder}: the two are on different file systems, "
                "this one has no links, or the file belongs to another user. Choose another --out, or use "
                "--copy or --move"
            )
        shutil.copy2(source, where)


def _identity(path: str) -> tuple[int, int] | None:
    """(device, inode) of a file; None if it has gone."""
    try:
        stat = os.stat(path)
    except OSError:
        return None
    return stat.st_dev, stat.st_ino


def _one_of_each_device(files: Files, changed: Sequence[FoundFile]) -> Iterator[str]:
    """The paths of files of which each is on another file system."""
    seen = set()
    for file in changed:
        device = os.stat(os.path.join(files.address, file.path)).st_dev
        if device not in seen:
            seen.add(device)
            yield file.path


def _linked(source: str, where: str) -> bool:
    try:
        os.link(source, where)
    except OSError as error:
        # Another file system, none with links, too many of them, or a file of another user.
        if error.errno in (
            *(errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP, errno.ENOTSUP),
            *(errno.ENOSYS, errno.EACCES),
        ):
            return False
        raise
    return True


def _cloned(source: str, where: str) -> bool:
    """Make `where` a copy that shares its blocks with `source`, if the file system can."""
    with open(source, "rb") as old, open(where, "xb") as new:
        try:
            fcntl.ioctl(new, _FICLONE, old.fileno())
        except OSError:
            os.remove(where)
            return False
    shutil.copystat(source, where)
    return True


def _download(files: Files, path: str, where: str) -> None:
    with opened(files.store, path) as reader, open(where, "xb") as file:
        buffer = bytearray(_PIECE_BYTES)
        for at in range(0, reader.size, _PIECE_BYTES):
            into = memoryview(buffer)[: min(_PIECE_BYTES, reader.size - at)]
            reader.readinto(into, at)
            file.write(into)
        mtime_ns = reader.mtime_ns
    os.utime(where, ns=(mtime_ns, mtime_ns))
