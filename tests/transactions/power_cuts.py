"""A simulator of power cuts: what a disk may hold after one, for a sequence of calls that was recorded.

`Recording` notes each call of the system that changes or syncs something below a folder. `Crash` is one
power cut: the calls before it were made, and of what was not synced by then some was lost:

* A file that was not synced since it was changed holds what was synced, what was written later, a
  beginning of that, zeros, or nothing.
* A change of names that no sync of its folder (of one of both, for a rename) followed is there or not,
  each for itself; a rename is there as a whole or not at all.

It is as hard as POSIX allows and harder than any file system: those keep changes of names in order.
"""

import functools
import os
import random
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

_IDENTITY = re.compile(rb'("identity": )(\d+)')
_OLD_NS = 10**18
"""When what lies on the disk was changed: before this machine was started."""


class Content(NamedTuple):
    """A file holds these bytes now."""

    node: int
    data: bytes


class Names(NamedTuple):
    """Names (folder, name) that stand for nothing now, or for that node."""

    changed: tuple[tuple[int, str, int | None], ...]

    @property
    def folders(self) -> set[int]:
        """The folders that it changes."""
        return {folder for folder, _, _ in self.changed}


class Sync(NamedTuple):
    """A file or folder was synced."""

    node: int


Event = Content | Names | Sync


class Recording:
    """The calls below a folder, in order; nodes are numbered anew, as inode numbers are used again."""

    def __init__(self, root: Path) -> None:
        self.events: list[Event] = []
        self.folders: set[int] = set()
        self._nodes: dict[int, int] = {}
        self._count = 0
        self.root = self._new(os.stat(root), is_folder=True)
        self.first: dict[tuple[int, str], int] = {}
        self.bytes: dict[int, bytes] = {}
        self.mtime_ns: dict[int, int] = {}
        self._walk(root, self.root)

    def _walk(self, path: Path, folder: int) -> None:
        for each in path.iterdir():
            node = self._new(each.stat(), is_folder=each.is_dir())
            self.first[folder, each.name] = node
            if each.is_dir():
                self._walk(each, node)
            else:
                self.bytes[node] = each.read_bytes()
                self.mtime_ns[node] = each.stat().st_mtime_ns

    def _new(self, status: os.stat_result, *, is_folder: bool) -> int:
        self._count += 1
        self._nodes[status.st_ino] = self._count
        if is_folder:
            self.folders.add(self._count)
        return self._count

    def _at(self, path: Any, folder: int | None) -> tuple[int | None, str]:
        """The folder and name of a path that a call was given."""
        text = os.fsdecode(path)
        above, _, name = text.rpartition("/")
        at = os.stat(above or ("/" if text.startswith("/") else "."), dir_fd=folder)
        return self._nodes.get(at.st_ino), name

    @contextmanager
    def on(self, patch: pytest.MonkeyPatch) -> Iterator[None]:
        """Record what is done in the block."""
        with patch.context() as patched:
            for name in ("open", "mkdir", "rename", "link", "unlink", "rmdir"):
                patched.setattr(
                    os, name, functools.partial(getattr(self, f"_{name}"), getattr(os, name))
                )
            for name in ("write", "pwrite", "ftruncate"):
                patched.setattr(os, name, functools.partial(self._written, getattr(os, name), 0))
            copy = functools.partial(self._written, os.copy_file_range, 1)
            patched.setattr(os, "copy_file_range", copy)
            for name in ("fsync", "fdatasync"):
                patched.setattr(os, name, functools.partial(self._synced, getattr(os, name)))
            yield

    def _open(self, call: Callable[..., int], path: Any, flags: int, *rest: Any, **how: Any) -> int:
        folder = how.get("dir_fd")
        is_new = bool(flags & os.O_CREAT) and not _exists(path, folder)
        fd = call(path, flags, *rest, **how)
        status = os.fstat(fd)
        if is_new:
            at, name = self._at(path, folder)
            if at is not None:
                node = self._new(status, is_folder=False)
                self.events += [Names(((at, name, node),)), Content(node, b"")]
        elif flags & os.O_TRUNC and status.st_ino in self._nodes:
            self.events.append(Content(self._nodes[status.st_ino], b""))
        return fd

    def _mkdir(self, call: Callable[..., None], path: Any, *rest: Any, **how: Any) -> None:
        call(path, *rest, **how)
        at, name = self._at(path, how.get("dir_fd"))
        if at is not None:
            status = os.stat(path, dir_fd=how.get("dir_fd"))
            self.events.append(Names(((at, name, self._new(status, is_folder=True)),)))

    def _rename(self, call: Callable[..., None], old: Any, new: Any, **how: Any) -> None:
        status = os.stat(old, dir_fd=how.get("src_dir_fd"), follow_symlinks=False)
        call(old, new, **how)
        source, target = self._at(old, how.get("src_dir_fd")), self._at(new, how.get("dst_dir_fd"))
        if source[0] is not None and target[0] is not None:
            node = self._nodes[status.st_ino]
            self.events.append(Names(((source[0], source[1], None), (target[0], target[1], node))))

    def _link(self, call: Callable[..., None], old: Any, new: Any, **how: Any) -> None:
        call(old, new, **how)
        at, name = self._at(new, how.get("dst_dir_fd"))
        if at is not None:
            status = os.stat(new, dir_fd=how.get("dst_dir_fd"), follow_symlinks=False)
            self.events.append(Names(((at, name, self._nodes[status.st_ino]),)))

    def _unlink(self, call: Callable[..., None], path: Any, **how: Any) -> None:
        call(path, **how)
        at, name = self._at(path, how.get("dir_fd"))
        if at is not None:
            self.events.append(Names(((at, name, None),)))

    _rmdir = _unlink

    def _written(self, call: Callable[..., Any], which: int, *arguments: Any) -> Any:
        done = call(*arguments)
        fd = arguments[which]
        node = self._nodes.get(os.fstat(fd).st_ino)
        if node is not None:
            data = Path(f"/proc/self/fd/{fd}").read_bytes()
            self.events.append(Content(node, _IDENTITY.sub(self._numbered, data)))
        return done

    def _numbered(self, found: "re.Match[bytes]") -> bytes:
        return found[1] + str(self._nodes.get(int(found[2]), 0)).encode()

    def _synced(self, call: Callable[[int], None], fd: int) -> None:
        call(fd)
        node = self._nodes.get(os.fstat(fd).st_ino)
        if node is not None:
            self.events.append(Sync(node))


class Crash:
    """A power cut after the first `end` calls of a recording."""

    def __init__(self, recording: Recording, end: int) -> None:
        self._recording = recording
        self._events = recording.events[:end]
        self._synced: dict[int, int] = {}
        for number, event in enumerate(self._events):
            if isinstance(event, Sync):
                self._synced[event.node] = number
        self.unsure = [
            number
            for number, event in enumerate(self._events)
            if isinstance(event, Names)
            and all(self._synced.get(folder, -1) < number for folder in event.folders)
        ]
        """The changes of names that may be lost."""

    def contents(self) -> dict[int, list[bytes]]:
        """What each file may hold: first all that was written, last nothing but what was synced."""
        found = {node: [data] for node, data in self._recording.bytes.items()}
        for number, event in enumerate(self._events):
            if not isinstance(event, Content):
                continue
            if self._synced.get(event.node, -1) > number or event.node not in found:
                found[event.node] = [event.data]
            else:
                found[event.node].insert(0, event.data)
        for node, written in found.items():
            if node not in self._recording.bytes and self._synced.get(node) is None:
                written.append(b"")
            if len(written) > 1:
                written[1:1] = [written[0][: len(written[0]) // 2], bytes(len(written[0]))]
        return found

    def write(self, to: Path, lost: set[int], chosen: Callable[[list[bytes]], bytes]) -> None:
        """Make the folder as it is then, without the changes of names that are `lost`."""
        names: dict[tuple[int, str], int] = dict(self._recording.first)
        for number, event in enumerate(self._events):
            if isinstance(event, Names) and number not in lost:
                for folder, name, node in event.changed:
                    if node is None:
                        names.pop((folder, name), None)
                    else:
                        names[folder, name] = node
        below: dict[int, list[tuple[str, int]]] = {}
        for (folder, name), node in names.items():
            below.setdefault(folder, []).append((name, node))
        made: dict[int, Path] = {}
        self._fill(to, self._recording.root, below, made)
        for node, data in self.contents().items():
            if node in made:
                numbers = {b"%d" % each: b"%d" % path.stat().st_ino for each, path in made.items()}
                text = _IDENTITY.sub(
                    lambda found: found[1] + numbers.get(found[2], b"0"),  # noqa: B023
                    chosen(data),
                )
                made[node].write_bytes(text)
                mtime_ns = self._recording.mtime_ns.get(node, _OLD_NS)
                os.utime(made[node], ns=(mtime_ns, mtime_ns))

    def _fill(
        self,
        path: Path,
        folder: int,
        below: dict[int, list[tuple[str, int]]],
        made: dict[int, Path],
    ) -> None:
        path.mkdir(mode=0o700)
        for name, node in below.get(folder, ()):
            if node in self._recording.folders:
                self._fill(path / name, node, below, made)
            elif node in made:
                os.link(made[node], path / name)
            else:
                made[node] = path / name
                made[node].touch(mode=0o600)

    def losses(
        self, chance: random.Random
    ) -> Iterator[tuple[set[int], Callable[[list[bytes]], bytes]]]:
        """What may be lost: all, nothing, each change alone, all but each, and some at random."""
        everything = set(self.unsure)
        for data in (_written, _lost):
            yield everything, data
            yield set(), data
            for each in self.unsure:
                yield {each}, data
                yield everything - {each}, data
        for _ in range(10):
            yield {each for each in self.unsure if chance.random() < 0.5}, chance.choice


def _written(choices: list[bytes]) -> bytes:
    return choices[0]


def _lost(choices: list[bytes]) -> bytes:
    return choices[-1]


def _exists(path: Any, folder: int | None) -> bool:
    try:
        os.stat(path, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True
