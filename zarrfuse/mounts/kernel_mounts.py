"""The kernel's table of mounts, the checks before a mount, and unmounting.

Used by `daemon` and `cli`. It never touches a mountpoint that may hang: the table is read from `/proc`, and
a mountpoint is touched only in a thread, with a time-out.
"""

import errno
import json
import os
import re
import select
import shutil
import subprocess
import threading
from dataclasses import dataclass
from typing import Any

from zarrfuse.errors import MountError

TYPE = "fuse.zarrfuse"
NO_FUSERMOUNT = "fusermount3 is missing: install the package fuse3"
_ANSWER_WITHIN_S = 3.0
_END_WITHIN_S = 10
_ESCAPED = re.compile(rb"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class Mount:
    """One line of the mount table; `device` is `major:minor`."""

    mountpoint: str
    type: str
    source: str
    device: str


def mounts() -> list[Mount]:
    """All mounts that this process sees, in the order in which they were made."""
    found = []
    with open("/proc/self/mountinfo", "rb") as table:
        for line in table:
            fields = line.split(b" ")
            dash = fields.index(b"-", 6)
            found.append(
                Mount(
                    mountpoint=_unescaped(fields[4]),
                    type=_unescaped(fields[dash + 1]),
                    source=_unescaped(fields[dash + 2]),
                    device=fields[2].decode(),
                )
            )
    return found


def _unescaped(field: bytes) -> str:
    return os.fsdecode(_ESCAPED.sub(lambda match: bytes([int(match[1], 8)]), field))


def mount_at(path: str) -> Mount | None:
    """The topmost mount at the mountpoint `path`, which is `resolved`."""
    return next((m for m in reversed(mounts()) if m.mountpoint == path), None)


def mount_around(path: str) -> Mount | None:
    """The zarrfuse mount that `path` lies in."""
    inside = [m for m in mounts() if path == m.mountpoint or path.startswith(m.mountpoint + "/")]
    last = max(inside, key=lambda m: len(m.mountpoint), default=None)
    return last if last is not None and last.type == TYPE else None


def resolved(path: str) -> str:
    """`path` without symlinks; if it is a mountpoint, without touching what is mounted there."""
    path = os.path.abspath(path)
    outer = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
    return outer if mount_at(outer) else os.path.realpath(outer)


def answer_of(mountpoint: str) -> int | None:
    """0 if a mount answers, else the errno (ENOTCONN: its daemon is gone); None if it hangs.

    It looks up a name that the kernel cannot have cached: `stat` of a dead mount answers from the cache.
    """
    result: list[int] = []

    def ask() -> None:
        try:
            os.stat(os.path.join(mountpoint, ".zarrfuse", "status.json"))
        except FileNotFoundError:  # somebody else's mount, and it answers
            result.append(0)
        except OSError as error:
            result.append(error.errno or errno.EIO)
        else:
            result.append(0)

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(_ANSWER_WITHIN_S)
    return result[0] if result else None


def check(source: str, mountpoint: str, *, nonempty: bool = False) -> None:
    """Raises `MountError` with the reason why `source` cannot be mounted on `mountpoint`.

    Both are `resolved`. The dead mountpoint of a killed daemon is unmounted.
    """
    check_fuse()
    if os.geteuid() != 0 and shutil.which("fusermount3") is None:  # root mounts without
        raise MountError(NO_FUSERMOUNT)
    mounted = mount_at(mountpoint)
    if mounted is not None and mounted.type.startswith("fuse"):
        answer = answer_of(mountpoint)
        if answer not in (errno.ENOTCONN, errno.ECONNABORTED):
            state = "already mounted" if answer is not None else "already mounted, and hangs"
            raise MountError(f"{mountpoint} is {state}: {mounted.source} ({mounted.type})")
        unmount(mountpoint, lazy=True)
    if _lies_in(source, mountpoint):
        raise MountError(f"the source {source} lies inside the mountpoint {mountpoint}")
    if os.path.isdir(source) and _lies_in(mountpoint, source):
        raise MountError(f"the mountpoint {mountpoint} lies inside the source {source}")
    if not os.path.lexists(mountpoint):
        raise MountError(f"there is no mountpoint {mountpoint}: make an empty folder first")
    if not os.path.isdir(mountpoint):
        raise MountError(f"the mountpoint {mountpoint} is not a folder")
    try:
        names = os.listdir(mountpoint)
    except PermissionError:
        raise MountError(f"no permission to look into the mountpoint {mountpoint}") from None
    if names and not nonempty:
        swapped = os.path.isdir(source) and not os.listdir(source)
        hint = (
            "did you mean it as the source?" if swapped else "-o nonempty would hide what is in it"
        )
        raise MountError(f"the mountpoint {mountpoint} is not empty; {hint}")
    if os.geteuid() != 0 and not os.access(mountpoint, os.W_OK):
        raise MountError(f"no permission to mount on {mountpoint}: this user may not write it")


def check_fuse() -> None:
    """Raises `MountError` with the reason why this process cannot use FUSE at all."""
    if not os.path.exists("/dev/fuse"):
        raise MountError(
            "there is no /dev/fuse: load the kernel module (modprobe fuse), or give the container "
            "the device (--device /dev/fuse --cap-add SYS_ADMIN)"
        )
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        raise MountError(
            "no permission to use /dev/fuse: as root, chmod 666 /dev/fuse, which is its usual mode"
        )


def _lies_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def unmount(mountpoint: str, *, lazy: bool = False) -> None:
    """Undo a mount; `lazy` detaches it at once and lets open files live on.

    Raises `MountError` with the reason: not mounted, busy, not permitted.
    """
    arguments = ["fusermount3", "-u", *(["-z"] if lazy else []), "--", mountpoint]
    try:
        done = subprocess.run(arguments, capture_output=True, text=True, check=False, timeout=60)
    except FileNotFoundError:
        raise MountError(NO_FUSERMOUNT) from None
    except subprocess.TimeoutExpired:
        raise MountError(f"{mountpoint} could not be unmounted within a minute") from None
    if done.returncode:
        reason = done.stderr.strip().removeprefix("fusermount3: ") or "fusermount3 failed"
        reason = reason.removeprefix(f"failed to unmount {mountpoint}: ")
        hint = "; --lazy detaches it now" if "busy" in reason and not lazy else ""
        raise MountError(f"{mountpoint} could not be unmounted: {reason}{hint}")


def daemon_of(mount: Mount) -> int | None:
    """A pidfd of the daemon of a mount; None if its control file does not say."""
    try:
        return os.pidfd_open(_status_of(mount)["pid"])
    except (OSError, KeyError):  # another version, or another pid namespace
        return None


def view_of(mount: Mount) -> str | None:
    """The view of a mount; None if its control file does not say."""
    return _status_of(mount).get("view")


def _status_of(mount: Mount) -> dict[str, Any]:
    """What the control file of a mount says; nothing if there is none that answers."""
    if mount.type != TYPE or answer_of(mount.mountpoint) != 0:
        return {}
    try:
        with open(os.path.join(mount.mountpoint, ".zarrfuse", "status.json"), "rb") as status:
            found = json.load(status)
    except (OSError, ValueError):  # another version
        return {}
    return found if isinstance(found, dict) else {}


def wait_for_end(process: int) -> None:
    """Wait for the end of a daemon, which comes soon after unmounting.

    Its files in the workspace are deleted then, before the next mount.
    """
    poll = select.poll()
    poll.register(process, select.POLLIN)
    poll.poll(_END_WITHIN_S * 1000)
    os.close(process)


def tune(mount: Mount, readahead_kib: int, max_background: int) -> list[str]:
    """Raise the kernel's read-ahead and number of background requests; returns refusals as text."""
    minor = mount.device.partition(":")[2]
    refused = []
    for path, value in (
        (f"/sys/class/bdi/{mount.device}/read_ahead_kb", readahead_kib),
        (f"/sys/fs/fuse/connections/{minor}/max_background", max_background),
        (f"/sys/fs/fuse/connections/{minor}/congestion_threshold", max_background * 3 // 4),
    ):
        try:
            with open(path, "w", encoding="ascii") as setting:
                setting.write(str(value))
        except OSError as error:
            refused.append(f"{path}: {error.strerror}")
    return refused
