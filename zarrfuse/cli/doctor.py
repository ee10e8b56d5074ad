"""`zarrfuse doctor`: whether this machine can mount, and what to do if not. Used by `cli`."""

import importlib.metadata
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterator

from zarrfuse import __version__
from zarrfuse.stores.local.beneath import OPENAT2

_PACKAGES = (
    *("pyfuse3", "trio", "msgspec"),
    *("numpy", "tifffile", "zarr", "numcodecs", "google-crc32c", "cachetools"),
)
_EXTRAS = {"obstore": "object", "imagecodecs": "codecs"}
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
    yield True, f"Python {platform.python_version()}", ""
    yield True, f"zarrfuse {__version__}", ""
    for package in _PACKAGES:
        try:
            yield True, f"{package} {importlib.metadata.version(package)}", ""
        except importlib.metadata.PackageNotFoundError:
            yield False, package, f"pip install {package}"
    for package, extra in _EXTRAS.items():
        try:
            yield True, f"{package} {importlib.metadata.version(package)}", ""
        except importlib.metadata.PackageNotFoundError:
            yield True, f"no {package}: pip install 'zarrfuse[{extra}]' installs it", ""


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
