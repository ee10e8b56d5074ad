"""`zarrfuse doctor`: whether this machine can mount, and what to do if not. Used by `cli`."""

import importlib.metadata
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import warnings
from collections.abc import Iterator

from zarrfuse import __version__
from zarrfuse.mounts.logs import described
from zarrfuse.spec.image_codecs import IMAGE_CODECS
from zarrfuse.spec.known_codecs import KNOWN
from zarrfuse.stores.local.beneath import OPENAT2

_REQUIREMENT = re.compile(r"(?P<name>[\w.-]+)[^;]*(?:; *extra == '(?P<extra>\w+)')?")
_NOT_FOR_USERS = frozenset({"all", "test", "bench", "lint", "scverse"})
_MOUNT_HELPER = "/sbin/mount.zarrfuse"
_OLDEST_KERNEL = (5, 12)  # openat2 with RESOLVE_CACHED

Finding = tuple[bool, str, str]
"""(whether it is fine, what was found, what to do if not)"""


def findings() -> Iterator[Finding]:
    """All findings, in the order in which to fix them."""
    kernel = platform.release()
    number = tuple(int(n) for n in re.findall(r"\d+", kernel)[:2])
    yield number >= _OLDEST_KERNEL, f"kernel {kernel}", "older than 5.12: works, but is slower"
    yield OPENAT2, "openat2", "refused, perhaps by a filter of the container: works, but is slower"
    yield (
        os.path.exists("/dev/fuse"),
        "/dev/fuse",
        "modprobe fuse; in a container: --device /dev/fuse --cap-add SYS_ADMIN",
    )
    yield (
        os.access("/dev/fuse", os.R_OK | os.W_OK),
        "/dev/fuse may be used by this user",
        "chmod 666 /dev/fuse, the usual mode",
    )
    yield _fusermount()
    yield (
        os.geteuid() == 0 or _others_allowed(),
        "--allow-other may be used",
        "add the line user_allow_other to /etc/fuse.conf, if others should read mounts",
    )
    yield True, f"the log of a daemon goes to {described()}", ""
    yield True, f"Python {platform.python_version()}", ""
    yield True, f"zarrfuse {__version__}", ""
    yield from _packages()
    yield from _codecs()
    if not os.path.exists(_MOUNT_HELPER):
        yield True, f"no {_MOUNT_HELPER}: mount(8) and fstab need one, see docs/mount.md", ""


def _packages() -> Iterator[Finding]:
    """What zarrfuse needs, and what it can use."""
    found = filter(None, map(_REQUIREMENT.match, importlib.metadata.requires("zarrfuse") or ()))
    extras = {each["name"]: each["extra"] for each in found if each["extra"] not in _NOT_FOR_USERS}
    for name, extra in extras.items():
        try:
            yield True, f"{name} {importlib.metadata.version(name)}", ""
        except importlib.metadata.PackageNotFoundError:
            if extra is None:
                yield False, name, f"is missing: pip install {name}"
            else:
                yield True, f"no {name}: pip install 'zarrfuse[{extra}]' installs it", ""


def _codecs() -> Iterator[Finding]:
    """Which codecs `images` can decode, and what reads arrays in Python."""
    try:
        from zarr.registry import get_codec_class  # noqa: PLC0415  # 0.3 s
    except ImportError:
        return  # it was named before
    can: list[str] = []
    cannot: list[str] = []
    for name in KNOWN:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                get_codec_class(name)
            is_there = _has_library(name)
        except Exception:  # whatever a codec's package raises
            is_there = False
        (can if is_there else cannot).append(name)
    yield True, f"codecs that can be decoded: {', '.join(can)}", ""
    if cannot:
        yield True, f"codecs that cannot: {', '.join(cannot)}", ""


def _has_library(codec: str) -> bool:
    """Whether the library that a codec calls is installed."""
    if codec in IMAGE_CODECS:
        return importlib.util.find_spec("imagecodecs") is not None
    if codec.startswith("numcodecs."):
        from numcodecs.registry import codec_registry, entries  # noqa: PLC0415  # with zarr

        return bool({codec.removeprefix("numcodecs.")} & (codec_registry.keys() | entries.keys()))
    return True


def run() -> bool:
    """Print all findings, a line each; returns whether everything is fine."""
    fine = True
    for good, what, remedy in findings():
        fine = fine and good
        print(f"ok    {what}" if good else f"look  {what}: {remedy}")
    return fine


def _fusermount() -> Finding:
    if shutil.which("fusermount3") is None:
        return False, "fusermount3", "install the package fuse3"
    done = subprocess.run(["fusermount3", "--version"], capture_output=True, text=True, check=False)
    return done.returncode == 0, done.stdout.strip() or "fusermount3", "reinstall the package fuse3"


def _others_allowed() -> bool:
    try:
        with open("/etc/fuse.conf", encoding="utf-8", errors="replace") as settings:
            return any(line.strip() == "user_allow_other" for line in settings)
    except OSError:
        return False
