"""`kill -9` of a daemon while programs write: each chunk is wholly old or wholly new at the next mount.

A chunk of any version tells which one it is (`versioned_chunks`), and the programs tell what they are
about to write (`write_versions`). So after each kill every chunk is held to be the version
that was there last, or the one that was being written. The mount that shows this serves the programs
that are surprised by the next kill.
"""

import fcntl
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from builders.documents import array, concat_parts, suffix_keys
from builders.folders import write_keys
from builders.mounts import GIVEN_UP_S, Process, clear, start, wait_for
from sampling import Sample
from versioned_chunks import HEADER_BYTES, INDEX_BYTES, content, version_of
from write_versions import DOCUMENT

from zarrfuse.mounts import kernel_mounts

KILLS, FEWER_KILLS = 125, 25
"""Of each of the four kinds: with `--thorough`, and by default."""
MOST_OPERATIONS = 12
"""That are done between two kills; then, it goes on for up to `LONGEST_S`."""
LONGEST_S = 0.02
READ_ONLY_EVERY = 8
"""After one kill in so many a read-only mount is looked at first."""

SUFFIX = ".bin"
SIDE = 3
IN_PARTS = (concat_parts((".header", HEADER_BYTES), "", (".index", INDEX_BYTES)),)
PARTS = (".header", "", ".index")

Versions = dict[str, int]


@dataclass(frozen=True)
class Kind:
    """A way of writing, and what is written to. `spool`: with a folder of its own for that."""

    view: str
    way: str
    in_parts: bool = True
    spool: bool = False


KINDS = {
    "chunks in parts": Kind("chunks", "anybody"),
    "plain in parts": Kind("plain", "zarr-python"),
    "plain in one part": Kind("plain", "anybody", in_parts=False),
    "a spool folder elsewhere": Kind("chunks", "cp", spool=True),
}


class Mounts:
    """Mounts one source in quick succession; what is read of it is read through them."""

    def __init__(self, folder: Path, kind: Kind) -> None:
        self.folder, self.kind = folder, kind
        self.source = folder / "source"
        self.point = folder / "mnt"
        self.point.mkdir()
        self.log = folder / "log"
        self.spool = folder / "spool"
        self.spool.mkdir()
        self._process: Process | None = None
        self._abort: Path | None = None

    def mount(self, *options: str) -> None:
        """Mount it; returns when it is ready."""
        mount = ["mount", "--foreground", self.source, self.point, "--view", self.kind.view]
        self._process = start([*mount, *options], self.log)
        said = f"{self.point} is mounted"
        wait_for(lambda: self.log.exists() and said in self.log.read_text(errors="replace"))
        mounted = kernel_mounts.mount_at(str(self.point))
        assert mounted is not None
        minor = mounted.device.partition(":")[2]
        self._abort = Path(f"/sys/fs/fuse/connections/{minor}/abort")

    def mount_to_write(self) -> None:
        """Mount it read-write."""
        options = ["--spool-dir", str(self.spool)] if self.kind.spool else []
        self.mount("--read-write", *options)

    def ended(self) -> int:
        """Wait until the daemon has ended; its exit code, or the signal that killed it, negative."""
        assert self._process is not None
        code = self._process.wait()
        self._process = None
        self.log.replace(self.folder / "log of before")
        return code

    def kill(self) -> None:
        """Kill the daemon. Whoever asks the mount gets an error until it is cleared."""
        assert self._process is not None
        self._process.kill()
        assert self.ended() == -signal.SIGKILL
        assert "WARNING" not in (said := (self.folder / "log of before").read_text()), said

    def give_up(self) -> None:
        """End the daemon, and every request that waits for it."""
        if self._process is not None:
            self._process.kill()
        with suppress(OSError):
            if self._abort is not None:
                self._abort.write_text("1")

    def clear(self) -> None:
        """Take away what a dead daemon left; nothing may ask the mount meanwhile."""
        clear(self.point)
        assert kernel_mounts.mount_at(str(self.point)) is None

    def unmount(self) -> None:
        """End the daemon as a person does."""
        clear(self.point)
        assert self.ended() == 0, (self.folder / "log of before").read_text()

    def close(self) -> None:
        """End everything, whatever state it is in."""
        if self._process is not None:
            self.give_up()
        clear(self.point)
        for log in (self.folder / "log of before", self.log):
            print(log.read_text(errors="replace") if log.exists() else "")


@dataclass
class Writers:
    """A process that writes whenever it is told to, and what it told of that."""

    process: "subprocess.Popen[str]"
    last: Versions
    under_way: Versions = field(default_factory=dict)

    def begin(self, seed: str, version: int) -> None:
        """Let it write versions from this one on."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{seed} {version}\n")
        self.process.stdin.flush()

    def next_done(self, *, is_killed: bool = False) -> bool:
        """Wait until it has done one more thing; false if it has ended instead.

        If the daemon `is_killed`, the kernel says EIO of a request that was being handed over.
        """
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line == ".\n":
                return False
            sign, name, version = line.split(maxsplit=2)
            if is_killed and sign == "!" and "OSError: [Errno 5]" in line:
                continue
            assert sign in "+=", line
            if sign == "+":
                self.under_way[name] = int(version)
                continue
            self.last[name] = self.under_way.pop(name)
            return True
        raise AssertionError("the writing process has died")

    def wait(self) -> None:
        """Wait until it has noticed that the mount is gone."""
        while self.next_done(is_killed=True):
            pass


@contextmanager
def writing(kind: Kind, array: Path, last: Versions) -> Iterator[Writers]:
    """The process that writes."""
    process = subprocess.Popen(
        [
            sys.executable,
            Path(__file__).with_name("write_versions.py"),
            kind.way,
            array,
            *(name if name == DOCUMENT else f"c/{name}" for name in last),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield Writers(process, last)
    finally:
        process.kill()
        process.communicate()


def names(kind: Kind) -> list[str]:
    """The chunks, by the end of their names; and in `plain` the document."""
    suffix = "" if kind.view == "plain" else SUFFIX
    chunks = [f"{row}/{column}{suffix}" for row in range(SIDE) for column in range(SIDE)]
    return [*chunks, DOCUMENT] if kind.view == "plain" else chunks


def write_source(source: Path, kind: Kind) -> Versions:
    """An array with version 1 of every other chunk; which version there is of each."""
    document = array(
        (2 * SIDE, 2 * SIDE),
        keys=suffix_keys(SUFFIX),
        transformers=IN_PARTS if kind.in_parts else (),
        codecs=[{"name": "bytes"}, {"name": "zstd", "configuration": {"level": 0}}],
        attributes={"version": 1},
    )
    keys, last = {DOCUMENT: document}, {}
    for number, name in enumerate(names(kind)):
        last[name] = 1 - number % 2
        if name == DOCUMENT:
            last[name] = 1
        elif last[name]:
            keys.update(stored_keys(kind, name, 1))
    write_keys(source, keys)
    return last


def stored_keys(kind: Kind, name: str, version: int) -> dict[str, bytes]:
    """The stored keys of a version of a chunk, with their bytes."""
    if not version:
        return {}
    data = content(name, version)
    key = f"c/{name.removesuffix(SUFFIX)}{SUFFIX}"
    if not kind.in_parts:
        return {key: data}
    pieces = data[:HEADER_BYTES], data[HEADER_BYTES:-INDEX_BYTES], data[-INDEX_BYTES:]
    return {key + part: piece for part, piece in zip(PARTS, pieces, strict=True)}


def shown(mount: Path, expected: Versions) -> Versions:
    """The versions that a mount shows of each name. Fails for a chunk that is not whole."""
    return {name: shown_version(mount, name) for name in expected}


def shown_version(mount: Path, name: str) -> int:
    """The version that a mount shows of a name, 0 if there is none."""
    if name == DOCUMENT:
        return int(json.loads((mount / name).read_bytes())["attributes"]["version"])
    try:
        data = (mount / "c" / name).read_bytes()
    except FileNotFoundError:
        return 0
    return version_of(name, data)


def check_stored(kind: Kind, source: Path, versions: Versions) -> None:
    """Fails unless the store holds these versions, byte for byte, and nothing of a dead daemon."""
    expected: dict[str, bytes] = {}
    for name, version in versions.items():
        if name != DOCUMENT:
            expected.update(stored_keys(kind, name, version))
    found = {
        path.relative_to(source).as_posix(): path.read_bytes()
        for path in (source / "c").rglob("*")
        if path.is_file() and path.suffix != ".partial"  # those are the programs', as on a disk
    }
    assert found.keys() == expected.keys()
    assert found == expected
    outside = {path.name for path in source.iterdir() if path.suffix != ".partial"}
    assert outside - {".zarrfuse"} == {DOCUMENT, "c"}
    check_nothing_is_left(source / ".zarrfuse")


def check_nothing_is_left(workspace: Path) -> None:
    """Fails if there is a journal, or anything of a process that is no more."""
    if not workspace.exists():
        return
    left = [path for path in workspace.rglob("*") if path.name not in ("lock", "alive")]
    assert [path for path in left if not path.is_dir()] == []
    for folder in left:
        with (folder / "alive").open("rb") as alive, pytest.raises(BlockingIOError):
            fcntl.flock(alive, fcntl.LOCK_EX | fcntl.LOCK_NB)


@contextmanager
def given_up(daemons: Mounts) -> Iterator[None]:
    """Ends all requests if the block takes too long, so that nobody waits for them for ever."""
    late = threading.Event()

    def end() -> None:
        late.set()
        daemons.give_up()

    timer = threading.Timer(GIVEN_UP_S, end)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
    assert not late.is_set(), "a request was not answered"


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_each_chunk_is_old_or_new_whenever_the_daemon_is_killed(
    tmp_path: Path, kind: Kind, sample: Sample
) -> None:
    chance = sample.chance
    last = write_source(tmp_path / "source", kind)
    daemons = Mounts(tmp_path, kind)
    try:
        with writing(kind, daemons.point, last) as writers:
            daemons.mount_to_write()
            for kill in range(sample.count(KILLS, default=FEWER_KILLS)):
                with given_up(daemons):
                    # No two versions of all rounds have one number.
                    writers.begin(f"{kind.way}.{kill}", (kill + 1) * 1000)
                    for _ in range(chance.randrange(MOST_OPERATIONS)):
                        assert writers.next_done()
                    time.sleep(chance.uniform(0, LONGEST_S))  # the random moment
                    daemons.kill()
                    writers.wait()
                    daemons.clear()
                    found_before = None
                    if kill % READ_ONLY_EVERY == 0:
                        daemons.mount()
                        found_before = shown(daemons.point, last)
                        daemons.unmount()
                    daemons.mount_to_write()
                    found = shown(daemons.point, last)
                assert found_before in (None, found)
                for name, version in found.items():
                    allowed = {last[name], writers.under_way.get(name, last[name])}
                    assert version in allowed, (kill, name)
                check_stored(kind, daemons.source, found)
                assert list(daemons.spool.iterdir()) == []
                last.update(found)
                writers.under_way.clear()
            daemons.unmount()
        assert not (daemons.source / ".zarrfuse").exists()
    finally:
        daemons.close()
