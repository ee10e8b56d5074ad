"""Ctrl-C ends a program that waits for a store, whatever it waits for."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from builders.folders import write_files
from builders.mounts import serving, status, wait_for
from daemons import fake

SOON_S = 10.0  # the store would not answer for 30 s
ENDINGS = {"SIGINT": signal.SIGINT, "SIGTERM": signal.SIGTERM, "SIGKILL": signal.SIGKILL}

PROGRAMS = {
    "stat": [sys.executable, "-S", "-E", "-c", "import os, sys; os.stat(sys.argv[1])"],
    "open": ["cat"],
    "read": ["cat"],
    "opendir": ["ls"],
}
CALLS = {"stat": "stat", "open": "open", "read": "readinto", "opendir": "scan"}


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("what", PROGRAMS)
def test_a_program_that_waits_ends_at_once(tmp_path: Path, what: str, ending: str) -> None:
    source = tmp_path / "source"
    write_files(source, {"slow/hang": b"data", "hang/file": b"data", "fine": b"data"})
    command = fake(store="hanging", call=CALLS[what])
    with serving(tmp_path, source, command=command) as daemon:
        name = "hang" if what == "opendir" else "slow/hang"
        program = subprocess.Popen(
            [*PROGRAMS[what], str(daemon.mountpoint / name)], stderr=subprocess.DEVNULL
        )
        try:
            wait_for(source.with_name(f"{source.name}.gate.waiting").exists)
            time.sleep(0.3)  # it waits in the kernel by now
            assert program.poll() is None
            program.send_signal(ENDINGS[ending])
            program.wait(SOON_S)
        finally:
            source.with_name(f"{source.name}.gate").touch()
            program.kill()
            program.wait()
        assert (daemon.mountpoint / "fine").read_bytes() == b"data"
        assert (daemon.mountpoint / "slow/hang").read_bytes() == b"data"
        assert os.listdir(daemon.mountpoint / "hang") == ["file"]
        assert status(daemon.mountpoint)["open_folders"] <= 1


def test_a_program_that_handles_the_signal_gets_eintr(tmp_path: Path) -> None:
    source = tmp_path / "source"
    write_files(source, {"slow/hang": b"data"})
    script = (
        "import os, sys\n"
        "try:\n"
        "    os.open(sys.argv[1], os.O_RDONLY)\n"
        "except KeyboardInterrupt:\n"
        "    print('interrupted')\n"
    )
    with serving(tmp_path, source, command=fake(store="hanging", call="open")) as daemon:
        program = subprocess.Popen(
            [sys.executable, "-c", script, str(daemon.mountpoint / "slow/hang")],
            stdout=subprocess.PIPE,
        )
        try:
            wait_for(source.with_name(f"{source.name}.gate.waiting").exists)
            time.sleep(0.3)
            program.send_signal(signal.SIGINT)
            assert program.communicate(timeout=SOON_S)[0] == b"interrupted\n"
        finally:
            source.with_name(f"{source.name}.gate").touch()
            program.kill()
            program.wait()


def test_a_signal_that_a_program_ignores_changes_nothing(tmp_path: Path) -> None:
    source = tmp_path / "source"
    write_files(source, {"slow/hang": b"data"})
    script = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.SIG_IGN);"
        "print(open(sys.argv[1]).read(), flush=True)"
    )
    with serving(tmp_path, source, command=fake(store="hanging", call="open")) as daemon:
        program = subprocess.Popen(
            [sys.executable, "-c", script, str(daemon.mountpoint / "slow/hang")],
            stdout=subprocess.PIPE,
        )
        try:
            wait_for(source.with_name(f"{source.name}.gate.waiting").exists)
            program.send_signal(signal.SIGINT)
            time.sleep(1.0)
            assert program.poll() is None
            source.with_name(f"{source.name}.gate").touch()
            assert program.communicate(timeout=SOON_S)[0] == b"data\n"
        finally:
            source.with_name(f"{source.name}.gate").touch()
            program.kill()
            program.wait()
