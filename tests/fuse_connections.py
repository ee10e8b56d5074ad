"""Mounts `/sys/fs/fuse/connections` for the run, where systemd is not there to do it (a container).

By the process that starts the workers, not by each of them: it is one for the whole machine.
"""

import os
import subprocess

import pytest

FUSE_CONNECTIONS = "/sys/fs/fuse/connections"
_MOUNTED = pytest.StashKey[bool]()


def pytest_sessionstart(session: pytest.Session) -> None:
    is_worker = hasattr(session.config, "workerinput")
    if is_worker or os.geteuid() != 0 or os.path.ismount(FUSE_CONNECTIONS):
        return
    done = subprocess.run(["mount", "-t", "fusectl", "fusectl", FUSE_CONNECTIONS], check=False)
    session.config.stash[_MOUNTED] = done.returncode == 0


def pytest_sessionfinish(session: pytest.Session) -> None:
    if session.config.stash.get(_MOUNTED, False):
        subprocess.run(["umount", FUSE_CONNECTIONS], check=False)
