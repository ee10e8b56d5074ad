"""After a power cut at any moment each chunk is wholly old or new, and new if storing it had returned."""

import itertools
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from builders.commits import files_of, recovered, store_bytes
from builders.folders import write_files
from power_cuts import Crash, Recording
from sampling import Sample

from zarrfuse.stores.base import OWN_NAME
from zarrfuse.stores.local.file import LocalFile
from zarrfuse.stores.local.store import LocalStore
from zarrfuse.stores.local.writing import WritableLocalStore
from zarrfuse.transactions import local_workspace
from zarrfuse.transactions import multi_key_commit as several_module
from zarrfuse.transactions.commits import Commits
from zarrfuse.transactions.multi_key_commit import Several
from zarrfuse.transactions.recovered_view import rolled_forward
from zarrfuse.transactions.spool import Target

Files = dict[str, bytes]
TRIED = 150
"""So many crashes of each story are tried by default."""
LARGE = bytes(range(256)) * 257
"""A part that is too large to lie in a journal."""


class Step(NamedTuple):
    """One program (0 or 1) stores something; what is there then."""

    program: int
    act: Callable[[Commits], None]
    changed: dict[str, bytes | None]


def chunk(key: str, version: int, *, large: bool = False) -> Files:
    """The parts of a chunk."""
    middle = b"pixels%d" % version + (LARGE if large else b"")
    return {f"{key}.a": b"head%d" % version, key: middle, f"{key}.z": b"index%d" % version}


def storing(key: str, version: int, *, program: int = 0, large: bool = False) -> Step:
    parts = chunk(key, version, large=large)
    return Step(program, lambda commits: store_bytes(commits, key, parts), dict(parts))


def renaming(key: str, version: int, source: str) -> Step:
    parts = chunk(key, version)
    ends = list(itertools.accumulate(map(len, parts.values())))
    targets = [Target(*each) for each in zip(parts, [0, *ends], ends, strict=False)]
    changed: dict[str, bytes | None] = {**parts, source: None}
    return Step(0, lambda commits: commits.store_file(key, targets, source), changed)


def renaming_chunk(key: str, source: str, version: int) -> Step:
    new, old = chunk(key, version), chunk(source, version)
    changed: dict[str, bytes | None] = {**new, **dict.fromkeys(old)}
    return Step(0, lambda commits: commits.rename(key, list(new), source, list(old)), changed)


def deleting(key: str) -> Step:
    parts = chunk(key, 0)
    return Step(0, lambda commits: commits.delete(key, list(parts)), dict.fromkeys(parts))


def replacing(key: str, data: bytes) -> Step:
    """Another program replaces a part, as programs do."""

    def act(commits: Commits) -> None:
        path = f"{commits.store.own.root.path}/{key}"  # type: ignore[attr-defined]
        fd = os.open(f"{path}.new", os.O_CREAT | os.O_WRONLY, 0o600)
        os.write(fd, data)
        os.fsync(fd)
        os.close(fd)
        os.rename(f"{path}.new", path)
        folder = os.open(os.path.dirname(path), os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)

    return Step(0, act, {key: data})


OLD = chunk("c/0", 0) | chunk("c/1", 0) | {"c/notes": b"mine"}
STORIES: dict[str, tuple[Files, list[Step]]] = {
    "new": ({}, [storing("c/0", 1)]),
    "large": (OLD, [storing("c/0", 1, large=True)]),
    "twice": (OLD, [storing("c/0", 1), storing("c/0", 2)]),
    "two programs": (OLD, [storing("c/0", 1), storing("c/0", 2, program=1), storing("c/0", 3)]),
    "neighbours": (OLD, [storing("c/0", 1), storing("c/1", 1, large=True)]),
    "renamed": (
        OLD | {"c/t": b"".join(chunk("", 1).values())},
        [renaming("c/0", 1, "c/t"), storing("c/0", 2)],
    ),
    "renamed in parts": (
        OLD,
        [storing("c/0", 1), renaming_chunk("c/1", "c/0", 1), storing("c/0", 2, large=True)],
    ),
    "deleted": (OLD, [storing("c/0", 1), deleting("c/0"), storing("c/0", 2)]),
}


class Story:
    """What was recorded of steps, and what may be stored after each call."""

    def __init__(self, name: str, root: Path, patch: pytest.MonkeyPatch) -> None:
        old, steps = STORIES[name]
        write_files(root, old)
        programs = [Commits(WritableLocalStore(str(root))) for _ in range(2)]
        self.recording = Recording(root)
        self.allowed: list[list[Files]] = []
        now = dict(old)
        with self.recording.on(patch):
            for step in steps:
                step.act(programs[step.program])
                then = {key: data for key, data in (now | step.changed).items() if data is not None}
                self._allow([now, then])
                now = then
                self._allow([now])
            for program in programs:
                program.close()
        self._allow([now])
        self.allowed.append([now])
        assert files_of(LocalStore(str(root))) == now

    def _allow(self, files: list[Files]) -> None:
        missing = len(self.recording.events) - len(self.allowed)
        self.allowed += [files] * missing

    def check(self, to: Path, sample: Sample, *, tried: int | None = TRIED) -> None:
        """Let the power be cut at each moment, or a sample of so many of these."""
        for number, (crash, lost, data, allowed) in enumerate(self._crashes(sample, tried)):
            root = to / str(number)
            to.mkdir(exist_ok=True)
            crash.write(root, lost, data)
            reader = rolled_forward(LocalStore(str(root)))
            seen = files_of(reader)
            reader.close()
            assert seen in allowed
            left = recovered(root)
            assert left in allowed
            shutil.rmtree(root)

    def _crashes(self, sample: Sample, tried: int | None) -> Iterator[tuple]:
        moments = [
            (number, Crash(self.recording, number), allowed)
            for number, allowed in enumerate(self.allowed)
        ]
        found = [
            (crash, lost, data, allowed)
            for _, crash, allowed in moments
            for lost, data in crash.losses(sample.chance)
        ]
        count = sample.count(len(found), default=min(len(found), tried or len(found)))
        return iter(sample.chance.sample(found, count))


@pytest.mark.parametrize("name", STORIES)
def test_the_power_is_cut(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sample: Sample
) -> None:
    (tmp_path / "data").mkdir()
    Story(name, tmp_path / "data", monkeypatch).check(tmp_path / "cut", sample)


def _no_sync(*_: object) -> None:
    """What a mutant does in place of a sync."""


def _without_folders_of_parts(patch: pytest.MonkeyPatch) -> None:
    sync = WritableLocalStore.sync_folder

    def forgetful(store: WritableLocalStore, key: str) -> None:
        if key == OWN_NAME:
            sync(store, key)

    patch.setattr(WritableLocalStore, "sync_folder", forgetful)


def _without_the_folder_of_the_workspace(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(local_workspace, "sync_folder", _no_sync)


def _without_the_journal(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LocalFile, "sync", _no_sync)


def _journal_last(patch: pytest.MonkeyPatch) -> None:
    """Parts are moved first, and the journal is put when the others are done."""
    put, later = Several._put, []
    patch.setattr(Several, "_put", lambda several, journal: later.append((several, journal)))

    def settle(*_: object) -> None:
        for several, journal in later:
            put(several, journal)
        later.clear()

    patch.setattr(several_module, "settle", settle)


@pytest.mark.parametrize(
    "mutate",
    [
        _without_folders_of_parts,
        _without_the_folder_of_the_workspace,
        _without_the_journal,
        _journal_last,
    ],
)
def test_a_commit_with_a_fault_is_found(
    mutate: Callable[[pytest.MonkeyPatch], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    sample: Sample,
) -> None:
    (tmp_path / "data").mkdir()
    with monkeypatch.context() as patched:
        mutate(patched)
        story = Story("renamed", tmp_path / "data", patched)
    with pytest.raises(AssertionError):
        story.check(tmp_path / "cut", sample, tried=None)
