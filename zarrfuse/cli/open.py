"""The command `open`: what file managers run. Used by `app`.

Owns where it mounts, and that a second call opens the same mount, or unmounts it. Nobody reads what it
prints when a file manager runs it, so errors go to the desktop, too.
"""

import contextlib
import errno
import fcntl
import itertools
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from typing import Annotated

import typer

from zarrfuse.cli.arguments import Source
from zarrfuse.cli.mount import unmount
from zarrfuse.cli.saying import say, sentence_of
from zarrfuse.config import VIEWS, MountConfig
from zarrfuse.errors import MountError, ZarrfuseError

_SHOWN_WITHIN_S = 3.0  # xdg-open either fails soon, or may become the file manager itself


def open_(
    source: Source,
    view: Annotated[
        str,
        typer.Option(
            metavar="VIEW", help="What to show, as `mount`.", autocompletion=lambda: list(VIEWS)
        ),
    ] = "images",
) -> None:
    """Mount SOURCE and show it in the file manager.

    If SOURCE is a mount, it is unmounted. Else it is mounted in $XDG_RUNTIME_DIR/zarrfuse, with a
    bookmark in the side bar.
    """
    if view not in VIEWS:
        raise typer.BadParameter(f"{view} is not one of {', '.join(VIEWS)}", param_hint="--view")
    with _errors_shown():
        _open(source, view)


@contextlib.contextmanager
def _errors_shown() -> Iterator[None]:
    try:
        yield
    except (ZarrfuseError, OSError) as error:
        _tell_desktop(sentence_of(error))
        raise


def _open(source: str, view: str) -> None:
    from zarrfuse.mounts import daemon, kernel_mounts  # noqa: PLC0415
    from zarrfuse.stores.opening import is_url  # noqa: PLC0415

    if not is_url(source):
        source = kernel_mounts.resolved(source)
        mounted = kernel_mounts.mount_at(source)
        if mounted is not None and mounted.type == kernel_mounts.TYPE:
            os.chdir("/")  # a file manager may have started this in the mount
            unmount(source)
            if os.path.dirname(source) == _folder():
                os.rmdir(source)
            say(f"{source} is unmounted")
            return
    folder = _folder()
    with _alone(folder):
        mountpoint = _mountpoint_of(source, view, folder)
        if mountpoint is None:
            mountpoint = _free(folder, name_of_mount(source))
            os.makedirs(mountpoint, mode=0o700, exist_ok=True)
            config = MountConfig(source=source, mountpoint=mountpoint, view=view, bookmark=True)
            try:
                problem = daemon.mount(config)
            except BaseException:
                with contextlib.suppress(OSError):  # somebody may use it
                    os.rmdir(mountpoint)
                raise
            if problem is not None:
                say(f"warning: {problem}")
                _tell_desktop(problem)
    _show(source, mountpoint)


def _folder() -> str:
    """The folder of the mountpoints, which no other user can write. Its path has no symlinks."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if os.path.isdir(runtime):
        folder = os.path.join(runtime, "zarrfuse")
    else:
        cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        folder = os.path.join(cache, "zarrfuse", "mounts")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    return os.path.realpath(folder)


@contextlib.contextmanager
def _alone(folder: str) -> Iterator[None]:
    """Wait for others that mount in the folder: who clicks twice gets one mount."""
    with open(f"{folder}.lock", "w", encoding="utf-8") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)  # of this process, not of the daemon that it forks
        yield


def name_of_mount(source: str) -> str:
    """The name of the folder in which a source is mounted."""
    from zarrfuse.stores.opening import printable_source  # noqa: PLC0415

    name = os.path.basename(printable_source(source).rstrip("/"))
    return "root" if name in ("", ".", "..") else name


def _mountpoint_of(source: str, view: str, folder: str) -> str | None:
    """Where a source is mounted in the folder in this view, and answers."""
    from zarrfuse.mounts import kernel_mounts  # noqa: PLC0415
    from zarrfuse.stores.opening import printable_source  # noqa: PLC0415

    name = printable_source(source)
    for mount in kernel_mounts.mounts():
        if os.path.dirname(mount.mountpoint) != folder or mount.source != name:
            continue
        if kernel_mounts.answer_of(mount.mountpoint) in (errno.ENOTCONN, errno.ECONNABORTED):
            kernel_mounts.unmount(mount.mountpoint, lazy=True)  # its daemon was killed
        elif kernel_mounts.view_of(mount) in (view, None):
            return mount.mountpoint
    return None


def _free(folder: str, name: str) -> str:
    """A path in the folder where nothing is mounted."""
    from zarrfuse.mounts import kernel_mounts  # noqa: PLC0415

    names = itertools.chain([name], (f"{name}-{number}" for number in itertools.count(2)))
    paths = (os.path.join(folder, each) for each in names)
    return next(path for path in paths if kernel_mounts.mount_at(path) is None)


def _show(source: str, mountpoint: str) -> None:
    """Show a folder in the file manager, which may live longer than this. Raises `MountError`."""
    if shutil.which("xdg-open") is None:
        raise MountError(f"{source} is mounted on {mountpoint}; to show it, install xdg-utils")
    running = subprocess.Popen(
        ["xdg-open", mountpoint],
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        code = running.wait(_SHOWN_WITHIN_S)
    except subprocess.TimeoutExpired:
        code = 0
    if code:
        raise MountError(
            f"{source} is mounted on {mountpoint}, but no file manager could be started: "
            f"xdg-open exited with {code}"
        )
    say(f"{source} is mounted on {mountpoint}")


def _tell_desktop(sentence: str) -> None:
    from zarrfuse.cli.desktop_messages import show_message  # noqa: PLC0415

    if not sys.stderr.isatty():
        show_message(sentence)
