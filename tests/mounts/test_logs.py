"""The log of a daemon goes where it is said to go, in the form that was asked for."""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from builders.documents import group
from builders.folders import write_keys
from builders.mounts import COMMAND, ENVIRONMENT, Daemon, wait_for
from builders.namespaces import command_in_namespace


@pytest.fixture
def place(tmp_path: Path) -> Path:
    write_keys(tmp_path / "store", {"zarr.json": group(), "file": b"x"})
    (tmp_path / "mnt").mkdir()
    return tmp_path


def mounted(place: Path, *options: object, dev: str = "true") -> str:
    """Mount and unmount in a namespace of mounts, in a terminal; what is printed.

    `dev`: a script that may change /dev before.
    """
    script = f'{dev}; "$@" || exit $?; fusermount3 -u "{place}/mnt"'
    mount = (*COMMAND, "mount", place / "store", place / "mnt", *options)
    command = shlex.join(command_in_namespace(script, *mount))
    done = subprocess.run(
        ["script", "-qec", command, "/dev/null"],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        env={**ENVIRONMENT, "HOME": str(place), "XDG_STATE_HOME": str(place / "state")},
        timeout=60,
    )
    return f"{done.stdout}exit code {done.returncode}"


WITHOUT_SYSLOG = """mkdir "$HOME/dev"
for name in null fuse tty urandom random zero; do
    touch "$HOME/dev/$name"
    mount --bind "/dev/$name" "$HOME/dev/$name"
done
mount --rbind "$HOME/dev" /dev"""


def test_without_syslog_it_is_a_file_that_mount_names(place: Path) -> None:
    said = mounted(place, dev=WITHOUT_SYSLOG)
    assert "exit code 0" in said, said
    path = place / "state/zarrfuse" / f"{str(place / 'mnt').strip('/').replace('/', '-')}.log"
    assert f"there is no syslog: the log is {path}" in said
    assert path.parent.stat().st_mode & 0o077 == 0
    wait_for(lambda: "is unmounted" in path.read_text())


def test_json_is_an_object_a_line(place: Path) -> None:
    said = mounted(place, "--log-file", place / "log", "--log-format", "json", "-v")
    assert "exit code 0" in said, said
    wait_for(lambda: "is unmounted" in (place / "log").read_text())
    found = [json.loads(line) for line in (place / "log").read_text().splitlines()]
    assert {each["mountpoint"] for each in found} == {str(place / "mnt")}
    assert found[-1]["level"] == "info"
    assert "is unmounted" in found[-1]["message"]
    assert f"{place / 'mnt'} is mounted" in [each["message"] for each in found]
    assert "no syslog" not in said


def in_the_foreground(place: Path, stream: str | None) -> str:
    """What a daemon logs to its stderr, a pipe; `stream`: what systemd says that stderr of a service is."""
    reading, writing = os.pipe()
    status = os.fstat(writing)
    own = f"{status.st_dev}:{status.st_ino}"
    command = (*COMMAND, "mount", "-f", place / "store", place / "mnt")
    environment = {**ENVIRONMENT, "JOURNAL_STREAM": own if stream is None else stream}
    with subprocess.Popen([*map(str, command)], stderr=writing, env=environment) as process:
        os.close(writing)
        with os.fdopen(reading) as log:
            first = log.readline()
            process.terminate()
            return first + log.read()


def test_lines_for_the_journal_have_priorities(place: Path) -> None:
    assert in_the_foreground(place, None).splitlines()[0] == f"<6>{place}/mnt is mounted"


def test_lines_for_others_have_none_though_a_service_started_the_terminal(place: Path) -> None:
    """Its variables are inherited by all that runs in it."""
    assert "<6>" not in in_the_foreground(place, "8:12345")


def test_another_format_is_refused(place: Path) -> None:
    said = mounted(place, "--log-format", "xml")
    assert "exit code 2" in said
    assert "xml is neither text nor json" in said
    assert os.listdir(place / "mnt") == []


ANSWERING = """
import errno, logging, os, sys
from zarrfuse.config import MountConfig
from zarrfuse.mounts.logs import open_log
open_log(MountConfig("/store", "/mnt", foreground=True))
for failure in errno.ENOENT, errno.EIO:
    logging.getLogger("pyfuse3").error("fuse_release(): fuse_reply_* failed with %s", os.strerror(failure))
"""


def test_an_answer_for_which_nobody_waits_after_an_unmount_is_no_error() -> None:
    done = subprocess.run(
        [sys.executable, "-c", ANSWERING], capture_output=True, text=True, check=True
    )
    [line] = done.stderr.splitlines()
    assert line.endswith("failed with Input/output error")


SLOWLY = """
import time, pyfuse3
from zarrfuse.cli import app
from zarrfuse.mounts import daemon
def later(call, seconds):
    return lambda *arguments: time.sleep(seconds) or call(*arguments)
daemon.first_look = later(daemon.first_look, 0.1)
pyfuse3.init = later(pyfuse3.init, 0.2)
app.main()
"""


def test_what_is_logged_while_libfuse_mounts_is_not_lost(
    tmp_path: Path, served: Callable[..., Daemon]
) -> None:
    (tmp_path / "empty").mkdir()
    daemon = served(tmp_path / "empty", command=(sys.executable, "-c", SLOWLY))
    wait_for(lambda: "there is no Zarr array or group in it" in daemon.text(), within_s=5)
