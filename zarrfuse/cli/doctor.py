"""`zarrfuse doctor`: whether this machine can mount, and what to do if not. Used by `cli`.

It imports each library only to find out whether that works: any of them may be missing or broken.
"""

import enum
import importlib
import importlib.metadata
import os
import platform
import re
import shutil
import stat
import subprocess
import warnings
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

from zarrfuse import __version__
from zarrfuse.cli.installed import program
from zarrfuse.errors import MountError, text_of
from zarrfuse.mounts import kernel_mounts, logs
from zarrfuse.stores.local.beneath import OPENAT2

_REQUIREMENT = re.compile(r"(?P<wanted>(?P<name>[\w.-]+)[^;]*)(?:; *extra == '(?P<extra>\w+)')?")
_NOT_FOR_USERS = frozenset({"all", "test", "bench", "docs", "lint", "scverse"})
_TO_BUILD = {"pyfuse3": "install the packages fuse3 libfuse3-dev pkg-config gcc python3-dev, then "}
"""What `pip install` of a package needs, which has no wheels."""
_MOUNT_HELPER = "/sbin/mount.zarrfuse"
_OLDEST_KERNEL = (5, 12)  # openat2 with RESOLVE_CACHED
_CAP_SYS_ADMIN = 21


class Mark(enum.StrEnum):
    """How bad a finding is."""

    OK = "ok"
    LOOK = "look"
    """Mounts work, but not all of them, or not as well as they could."""
    FAILS = "fails"
    """No mount works."""


class Finding(NamedTuple):
    """A line: what was found, and what to do if it is not fine."""

    mark: Mark
    what: str
    remedy: str = ""

    def __str__(self) -> str:
        return f"{self.mark:<6}{self.what}" + (f": {self.remedy}" if self.remedy else "")


def run() -> bool:
    """Print all findings, a line each; returns whether mounts work."""
    works = True
    for finding in findings():
        works = works and finding.mark is not Mark.FAILS
        print(finding)
    return works


def findings() -> Iterator[Finding]:
    """All findings, in the order in which to fix them."""
    yield from _kernel()
    yield from _privileges()
    yield _fusermount()
    yield _others()
    yield _log()
    yield Finding(Mark.OK, f"Python {platform.python_version()}")
    yield Finding(Mark.OK, f"zarrfuse {__version__}")
    yield from _libraries()
    yield _mount_helper()


def _kernel() -> Iterator[Finding]:
    """The kernel, its call that mounts of folders use, and FUSE."""
    kernel = platform.release()
    if tuple(map(int, re.findall(r"\d+", kernel)[:2])) >= _OLDEST_KERNEL:
        yield Finding(Mark.OK, f"kernel {kernel}")
    else:
        yield Finding(Mark.LOOK, f"kernel {kernel}", "mounts are faster from 5.12 on")
    if OPENAT2:
        yield Finding(Mark.OK, "openat2")
    else:
        yield Finding(
            Mark.LOOK,
            "openat2 is refused, and mounts are slower",
            "allow it in the seccomp profile of the container, or update the kernel to 5.6 or newer",
        )
    try:
        kernel_mounts.check_fuse()
        yield Finding(Mark.OK, "/dev/fuse")
    except MountError as error:
        yield Finding(Mark.FAILS, str(error))


def _privileges() -> Iterator[Finding]:
    """What a container or a service may have taken from this process."""
    own = dict(line.split(":\t") for line in Path("/proc/self/status").read_text().splitlines())
    if not int(own["CapBnd"], 16) >> _CAP_SYS_ADMIN & 1:
        yield Finding(
            Mark.FAILS,
            "the capability to mount, SYS_ADMIN, is withheld",
            "give it to the container (--cap-add SYS_ADMIN)",
        )
    if os.geteuid() != 0 and own["NoNewPrivs"] == "1":
        yield Finding(
            Mark.FAILS,
            "fusermount3 may not become root, because no_new_privs is set",
            "run the container without no-new-privileges, or the service without NoNewPrivileges=",
        )


def _fusermount() -> Finding:
    path = shutil.which("fusermount3")
    if path is None:
        is_needed = os.geteuid() != 0  # root mounts without, but `zarrfuse unmount` calls it
        return Finding(Mark.FAILS if is_needed else Mark.LOOK, kernel_mounts.NO_FUSERMOUNT)
    file = os.stat(path)
    if os.geteuid() != 0 and not (file.st_mode & stat.S_ISUID and file.st_uid == 0):
        return Finding(
            Mark.FAILS,
            f"{path} is not setuid root, so that only root may mount",
            f"as root: chown root {path} && chmod u+s {path}",
        )
    try:
        done = subprocess.run([path, "--version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        return Finding(
            Mark.FAILS, f"{path} does not run ({text_of(error)})", "reinstall the package fuse3"
        )
    return Finding(Mark.OK, done.stdout.strip())


def _others() -> Finding:
    if os.geteuid() == 0 or _are_others_allowed():
        return Finding(Mark.OK, "--allow-other may be used")
    return Finding(
        Mark.LOOK,
        "--allow-other is for root alone",
        "add the line user_allow_other to /etc/fuse.conf, if others should read mounts",
    )


def _are_others_allowed() -> bool:
    try:
        with open("/etc/fuse.conf", encoding="utf-8", errors="replace") as settings:
            return any(line.strip() == "user_allow_other" for line in settings)
    except OSError:
        return False


def _log() -> Finding:
    place = logs.place()
    if place is None:
        return Finding(
            Mark.LOOK,
            f"a daemon has no log, since {logs.folder_of_states()} cannot be written",
            "mount with --log-file FILE",
        )
    return Finding(Mark.OK, f"the log of a daemon goes to {place}")


def _libraries() -> Iterator[Finding]:
    """What zarrfuse needs, what it can use, and what that decodes."""
    try:
        requirements = importlib.metadata.requires("zarrfuse") or ()
    except importlib.metadata.PackageNotFoundError:
        yield Finding(
            Mark.LOOK,
            "zarrfuse is not installed, so that what it needs is not known",
            "pip install '.[all]' in its folder",
        )
        return
    found = filter(None, map(_REQUIREMENT.match, requirements))
    wanted = {each["name"]: each for each in found if each["extra"] not in _NOT_FOR_USERS}
    working = set()
    are_all = True
    for name, each in wanted.items():
        finding = _library(name, each["wanted"].strip(), each["extra"])
        if finding.mark is Mark.OK and not finding.remedy:
            working.add(name)
        are_all = are_all and finding.mark is not Mark.FAILS
        yield finding
    if are_all:
        yield from _codecs(working)


def _library(name: str, wanted: str, extra: str | None) -> Finding:
    """`wanted`: its name and versions; `extra`: the one that it is of, or None if all mounts need it."""
    try:
        version = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        if extra is not None:
            return Finding(Mark.OK, f"no {name}", f"pip install 'zarrfuse[{extra}]' installs it")
        build = _TO_BUILD.get(name, "")
        return Finding(Mark.FAILS, f"{name} is missing", f"{build}pip install '{wanted}'")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            importlib.import_module(name.replace("-", "_"))
    except Exception as error:  # whatever a broken library raises
        # Not from pip's cache, where what was built for another libfuse may be.
        again = f"pip install --force-reinstall --no-cache-dir '{wanted}'"
        return Finding(
            Mark.FAILS if extra is None else Mark.LOOK,
            f"{name} {version} cannot be imported ({text_of(error)})",
            f"{_TO_BUILD.get(name, '')}{again}",
        )
    return Finding(Mark.OK, f"{name} {version}")


def _codecs(working: Collection[str]) -> Iterator[Finding]:
    """Which codecs `images` can decode with the libraries that work, among them all that mounts need."""
    from zarr.registry import get_codec_class  # noqa: PLC0415  # may be missing

    from zarrfuse.spec.known_codecs import KNOWN  # noqa: PLC0415  # needs msgspec

    can: list[str] = []
    cannot: list[str] = []
    for name in KNOWN:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                get_codec_class(name)
            is_there = _has_library(name, working)
        except Exception:  # whatever a codec's package raises
            is_there = False
        (can if is_there else cannot).append(name)
    yield Finding(Mark.OK, f"codecs that can be decoded: {', '.join(can)}")
    if cannot:
        yield Finding(Mark.OK, f"codecs that cannot: {', '.join(cannot)}")


def _has_library(codec: str, working: Collection[str]) -> bool:
    """Whether the library that a codec calls is installed."""
    from zarrfuse.spec.image_codecs import IMAGE_CODECS  # noqa: PLC0415  # needs msgspec

    if codec in IMAGE_CODECS:
        return "imagecodecs" in working
    if codec.startswith("numcodecs."):
        from numcodecs.registry import codec_registry, entries  # noqa: PLC0415  # may be missing

        return bool({codec.removeprefix("numcodecs.")} & (codec_registry.keys() | entries.keys()))
    return True


def _mount_helper() -> Finding:
    if os.path.exists(_MOUNT_HELPER):
        return Finding(Mark.OK, _MOUNT_HELPER)
    helper = program().with_name("mount.zarrfuse")
    return Finding(
        Mark.OK,
        f"optional: {_MOUNT_HELPER}, which only mount(8) and fstab need",
        f"as root: ln -s {helper} {_MOUNT_HELPER}",
    )
