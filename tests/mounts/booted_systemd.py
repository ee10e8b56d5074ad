"""A manager of systemd, of the system or of a user, booted in namespaces of its own.

It sees the programs of this machine, but has its own /etc, /run, /tmp, /var/tmp, /dev, processes and
control groups, and only the units that are written here: none that sets up or cleans a machine, as
systemd-tmpfiles does. The root folder is read-only to it.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from builders.mounts import ENVIRONMENT, wait_for
from builders.namespaces import command_in_namespace

from zarrfuse.cli.installed import shared_folder

SYSTEMD = Path("/lib/systemd/systemd")

# $1: the folder that stays writable, $2: `system` or `user`, $3: Python, $4: the units of this repository,
# $5: where `install-units` finds those that were installed, $6: this repository, which may be in a folder
# of temporary files, too. The control groups are deleted at the end.
_OUTER = """
mount -t tmpfs -o mode=755 tmpfs /mnt
mkdir /mnt/groups /mnt/place /mnt/repository /mnt/etc /mnt/dev
mount -t cgroup2 cgroup2 /mnt/groups || exit 77
own=/mnt/groups$(sed -n 's/^0:://p' /proc/self/cgroup)/zarrfuse-test-$$
mkdir "$own"
cp -a /etc/. /mnt/etc
sh -c 'echo $$ > "$0/cgroup.procs" && exec "$@"' "$own" unshare --pid --fork --kill-child --cgroup --uts \
    --ipc --mount --propagation private sh -ec "$INNER" sh "$@" || true
find "$own" -depth -type d -exec rmdir {} \\;
"""
_INNER = """
mount --bind "$1" /mnt/place
mount --bind "$6" /mnt/repository
for folder in /tmp /var/tmp /run; do mount -t tmpfs tmpfs $folder; done
mkdir -p "$1" "$6"
mount --bind /mnt/place "$1"
mount --bind /mnt/repository "$6"
mount -o remount,bind,ro "$6"
mount --bind /mnt/etc /etc
mount --bind "$4" "$5"
mount -t tmpfs tmpfs /etc/systemd/system
mount -t proc proc /proc
mount --bind /proc/sys /proc/sys
mount -o remount,bind,ro /proc/sys
mount -t tmpfs tmpfs /sys/fs/cgroup
mount -t cgroup2 cgroup2 /sys/fs/cgroup
for name in null zero random urandom full tty fuse autofs; do
    [ -e /dev/$name ] || continue
    touch /mnt/dev/$name
    mount --bind /dev/$name /mnt/dev/$name
done
mount --rbind /mnt/dev /dev
mount -o remount,bind,ro /
cd /run
mkdir none
export HOME=/run/home XDG_RUNTIME_DIR=/run/user container=zarrfuse-test SYSTEMD_PROC_CMDLINE=
export SYSTEMD_GENERATOR_PATH=/run/none SYSTEMD_ENVIRONMENT_GENERATOR_PATH=/run/none
if [ "$2" = user ]; then
    "$3" -m zarrfuse install-units --user
    units=$HOME/.config/systemd/user configs=$HOME/.config/zarrfuse
    mkdir -p $XDG_RUNTIME_DIR /run/systemd/system  # by which it sees that systemd runs
else
    "$3" -m zarrfuse install-units
    units=/etc/systemd/system configs=/etc/zarrfuse
fi
ln -s "$1" $configs
mkdir "$units/zarrfuse@.service.d"
cp "$1/local.conf" "$units/zarrfuse@.service.d"
for name in basic sysinit shutdown; do
    printf '[Unit]\\nDefaultDependencies=no\\n' > $units/$name.target
done
export SYSTEMD_UNIT_PATH=$units
if [ "$2" = user ]; then
    "$SYSTEMD" --user --unit=basic.target --log-target=null &
    wait
else
    exec "$SYSTEMD" --system --unit=basic.target --log-target=null --show-status=no
fi
"""


class Booted:
    """A manager that runs. `root`: its file system, as this process sees it."""

    def __init__(self, init: int, kind: str) -> None:
        self.root = Path(f"/proc/{init}/root")
        self._enter = ["nsenter", "-t", str(init), "-m", "-p", "-C", "-i", "-u"]
        self._systemctl = ["systemctl", f"--{kind}", "--no-pager"]

    def systemctl(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.run(*self._systemctl, *arguments)

    def run(self, *command: object) -> subprocess.CompletedProcess[str]:
        """Run a command beside the manager."""
        return subprocess.run(
            [*self._enter, *map(str, command)],
            capture_output=True,
            text=True,
            check=False,
            env={**ENVIRONMENT, "XDG_RUNTIME_DIR": "/run/user"},
            timeout=20,
        )

    def shown(self, unit: str) -> dict[str, str]:
        """The properties of a unit."""
        lines = self.systemctl("show", unit).stdout.splitlines()
        return dict(line.partition("=")[::2] for line in lines)

    def kill(self, unit: str, number: signal.Signals) -> None:
        done = self.systemctl("kill", "--kill-whom=main", f"--signal={number.name}", unit)
        assert done.returncode == 0, done.stderr


@contextmanager
def booted(folder: Path, kind: str) -> Iterator[Booted]:
    """Boot a manager that has the unit of `install-units`, with `local.conf` of a folder as its drop-in.

    `folder`: the only one that it can write; it has the files of configuration.
    """
    if not SYSTEMD.exists():
        pytest.skip("systemd is not installed")
    environment = {**ENVIRONMENT, "INNER": _INNER, "SYSTEMD": str(SYSTEMD)}
    repository = Path(__file__).parents[2]
    units, installed = repository / "systemd", shared_folder("systemd")
    places = (units, installed, repository)
    command = command_in_namespace(_OUTER, folder, kind, sys.executable, *places)
    with (folder / "boot.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
    inits: list[int] = []

    def is_running() -> bool:
        if process.poll() == 77:
            pytest.skip("control groups of version 2 cannot be mounted here")
        assert process.poll() is None, (folder / "boot.log").read_text()
        inits[:] = _init_of(process.pid)
        return bool(inits) and Booted(inits[0], kind).systemctl("is-system-running").stdout in (
            "running\n",
            "degraded\n",
        )

    try:
        wait_for(is_running)
        yield Booted(inits[0], kind)
    finally:
        for init in _init_of(process.pid):
            os.kill(init, signal.SIGKILL)
        process.wait(30)


def _init_of(outer: int) -> list[int]:
    """The first process of the namespace, which is the child of unshare; none if there is none yet."""
    at = [outer]
    for _ in range(2):
        at = [child for each in at for child in _children(each)]
    return at


def _children(process: int) -> list[int]:
    try:
        return [*map(int, Path(f"/proc/{process}/task/{process}/children").read_text().split())]
    except OSError:
        return []
