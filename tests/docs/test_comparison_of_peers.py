"""What `docs/comparison.md` says of sshfs, rclone mount and ratarmount is what these programs do here.

sshfs talks to sftp-server without a network, rclone mounts a folder as a remote, ratarmount an archive.
mountpoint-s3 is in no package of Debian or PyPI, and is left out.
"""

import errno
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from builders.mounts import clear, wait_for

from zarrfuse.mounts.kernel_mounts import mount_at

PAGE = (Path(__file__).parents[2] / "docs/comparison.md").read_text()
TEXT = b"some bytes"
SFTP_SERVER = "/usr/lib/openssh/sftp-server"
RATARMOUNT = Path(sys.prefix, "peers/bin/ratarmount")


def cells(column: str) -> dict[str, str]:
    """What the page says of a program, by the first cell of each row."""
    found = {}
    for table in re.findall(r"(?:^\|.*\n)+", PAGE, re.MULTILINE):
        head, _, *rows = ([each.strip() for each in line.split("|")] for line in table.splitlines())
        number = next(n for n, name in enumerate(head) if name.split(" ")[0] == column)
        found |= {row[1]: row[number] for row in rows}
    return found


@dataclass(frozen=True)
class Peer:
    """A program, with a source that has `file` and, if it is a folder, can be written."""

    column: str
    command: Callable[[Path, Path], list[str]]
    help: tuple[tuple[str, ...], ...]
    in_background: tuple[str, ...] = ()
    in_foreground: tuple[str, ...] = ("-f",)
    reads_archives: bool = False

    def mount(self, source: Path, point: Path, *more: str) -> subprocess.CompletedProcess[str]:
        """Mount as the program does by itself, in the background."""
        # The background keeps the pipes of a program open: what it says is read from a file.
        log = point.with_name("said")
        with log.open("w") as output:
            done = subprocess.run(
                [*self.command(source, point), *self.in_background, *more],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                timeout=60,
                check=False,
            )
        return subprocess.CompletedProcess(done.args, done.returncode, log.read_text())


@dataclass(frozen=True)
class Place:
    """Where a program mounts what."""

    peer: Peer
    source: Path
    point: Path

    def mount(self, *more: str) -> str:
        """Mount; what the program says. It must succeed."""
        done = self.peer.mount(self.source, self.point, *more)
        assert done.returncode == 0, done.stdout
        return done.stdout

    def daemons(self) -> list[int]:
        """The processes that mount here."""
        found = []
        for entry in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):
                if os.fsencode(self.point) in entry.read_bytes().split(b"\0"):
                    found.append(int(entry.parent.name))
        return found

    def is_mounted(self) -> bool:
        return mount_at(str(self.point)) is not None


def _sshfs(source: Path, point: Path) -> list[str]:
    server = point.with_name("ssh")
    server.write_text(f"#!/bin/sh\nexec {SFTP_SERVER}\n")
    server.chmod(0o755)
    return ["sshfs", f"nowhere:{source}", str(point), "-o", f"ssh_command={server}"]


def _rclone(source: Path, point: Path) -> list[str]:
    options = ["--config", "/dev/null", "--daemon-wait", "3s"]
    return ["rclone", "mount", f":local:{source}", str(point), *options]


PEERS = {
    "sshfs": Peer("sshfs", _sshfs, (("sshfs", "--help"),)),
    "rclone": Peer(
        "rclone",
        _rclone,
        (("rclone", "mount", "--help"), ("rclone", "help", "flags"), ("rclone", "check", "--help")),
        in_background=("--daemon",),
        in_foreground=(),
    ),
    "ratarmount": Peer(
        "ratarmount",
        lambda source, point: [str(RATARMOUNT), str(source), str(point)],
        ((str(RATARMOUNT), "--help"),),
        reads_archives=True,
    ),
}


@pytest.fixture(scope="module", params=PEERS)
def peer(request: pytest.FixtureRequest) -> Peer:
    found = PEERS[request.param]
    assert shutil.which(found.help[0][0]), f"{request.param} is missing: run .ci/setup test"
    return found


@pytest.fixture
def place(peer: Peer, tmp_path: Path) -> Iterator[Place]:
    """A source and an empty mountpoint; nothing is mounted and nothing runs there afterwards."""
    folder, point = tmp_path / "folder", tmp_path / "mnt"
    folder.mkdir()
    point.mkdir()
    (folder / "file").write_bytes(TEXT)
    source = folder
    if peer.reads_archives:
        source = tmp_path / "archive.tar"
        with tarfile.open(source, "w") as archive:
            archive.add(folder / "file", "file")
    place = Place(peer, source, point)
    try:
        yield place
    finally:
        while place.is_mounted():
            clear(point)
        for daemon in place.daemons():
            with suppress(ProcessLookupError):
                os.kill(daemon, signal.SIGKILL)


@pytest.fixture(scope="module")
def says(peer: Peer) -> dict[str, str]:
    """The cells of this program."""
    return cells(peer.column)


def test_its_options_exist(peer: Peer, says: dict[str, str]) -> None:
    told = "".join(
        subprocess.run(command, capture_output=True, text=True, check=False).stdout
        for command in peer.help
    )
    named = set(re.findall(r"`(-[a-zA-Z]|--[a-z-]+)\b", " ".join(says.values())))
    words = set(re.findall(r"`-o ([\w=,]+)`", " ".join(says.values())))
    assert len(named | words) > 4
    assert {option for option in named if not re.search(rf"(?m)(^|[\s,]){option}\b", told)} == set()
    assert {
        each for word in words for each in re.findall("[A-Za-z_]+", word) if each not in told
    } <= (
        # Words of libfuse and of ssh, which the help of sshfs and ratarmount does not list.
        {"ServerAliveInterval", "ro", "allow_other", "uid", "gid", "umask"}
    )


def test_it_goes_to_the_background_and_is_ready_then(place: Place, says: dict[str, str]) -> None:
    place.mount()
    assert (place.point / "file").read_bytes() == TEXT
    assert says["goes to the background"].startswith(("yes", "with `--daemon`"))
    assert says["returns when files can be read"] == "yes"


def test_it_stays_in_the_foreground(place: Place, says: dict[str, str]) -> None:
    command = [*place.peer.command(place.source, place.point), *place.peer.in_foreground]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as program:
        wait_for(place.is_mounted)
        assert program.poll() is None
        program.terminate()
    told = says["goes to the background"]
    assert ("`-f` does not" in told) == ("-f" in place.peer.in_foreground)


def test_a_source_that_does_not_exist(peer: Peer, place: Place, says: dict[str, str]) -> None:
    done = peer.mount(place.source.with_name("none"), place.point)
    if "mounted" in (told := says["a source that does not exist"]):
        assert done.returncode == 0
        assert told == "is mounted, empty"
        with suppress(FileNotFoundError):
            assert os.listdir(place.point) == []
    else:
        assert told == "refused, in a sentence"
        assert done.returncode > 0
        assert done.stdout


def test_a_mountpoint_that_does_not_exist(place: Place, says: dict[str, str]) -> None:
    place.point.rmdir()
    done = place.peer.mount(place.source, place.point)
    if says["a mountpoint that does not exist"] == "is made":
        assert done.returncode == 0
        assert (place.point / "file").read_bytes() == TEXT
    else:
        assert "refused" in says["a mountpoint that does not exist"]
        assert done.returncode > 0


def test_a_mountpoint_with_files_in_it(place: Place, says: dict[str, str]) -> None:
    (place.point / "other").touch()
    place.mount()
    assert says["a mountpoint with files in it"] == "is mounted over"
    assert os.listdir(place.point) == ["file"]


def test_a_second_mount(place: Place, says: dict[str, str]) -> None:
    place.mount()
    done = place.peer.mount(place.source, place.point)
    if says["already mounted there"] == "is mounted over":
        assert done.returncode == 0, done.stdout
    else:
        assert says["already mounted there"] == "refused; `--allow-non-empty`"
        assert done.returncode > 0
        place.mount("--allow-non-empty")


def test_the_mountpoint_of_a_killed_daemon(place: Place, says: dict[str, str]) -> None:
    place.mount()
    for daemon in place.daemons():
        os.kill(daemon, signal.SIGKILL)
    wait_for(lambda: not place.daemons())
    assert place.is_mounted()
    done = place.peer.mount(place.source, place.point)
    assert done.returncode > 0
    assert says["the mountpoint of a killed daemon"].startswith("the next mount fails")
    clear(place.point)
    place.mount()


def test_an_option_that_does_not_exist(place: Place, says: dict[str, str]) -> None:
    done = place.peer.mount(place.source, place.point, "--no-such-option")
    assert done.returncode > 0
    assert says["an option that does not exist"].startswith("named")
    assert "no-such-option" in done.stdout


def test_sigterm(place: Place, says: dict[str, str]) -> None:
    place.mount()
    opened = os.open(place.point / "file", os.O_RDONLY)
    try:
        for daemon in place.daemons():
            os.kill(daemon, signal.SIGTERM)
        if says["SIGTERM"] == "unmounts, open files or not":
            wait_for(lambda: not place.is_mounted())
        else:
            assert (
                says["SIGTERM"]
                == "unmounts if no file is open, else ends and leaves a dead mountpoint"
            )
            wait_for(lambda: not place.daemons())
            assert place.is_mounted()
    finally:
        with suppress(OSError):  # ENOTCONN
            os.close(opened)


def outcome(act: Callable[[], object]) -> str:
    """What came of a system call: `yes`, or the name of the errno."""
    try:
        act()
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    return "yes"


def test_files(place: Place, says: dict[str, str]) -> None:
    place.mount()
    file = place.point / "file"
    found = [
        outcome(lambda: file.chmod(0o600)),
        outcome(lambda: (place.point / "link").symlink_to("file")),
    ]
    if found[0] == "yes" and stat.S_IMODE(file.stat().st_mode) != 0o600:
        found[0] = "no effect"
    assert says["`chmod`, symlinks"] in ("; ".join(found), found[0] if found[0] == found[1] else "")
    written = outcome(lambda: (place.point / "new").write_bytes(TEXT))
    assert (written == "yes") == ("overlay" not in says["writing"])
    assert says["rename"] == outcome(lambda: file.rename(place.point / "other"))
