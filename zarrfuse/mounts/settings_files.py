"""Replaces files with settings of other programs, whole or not at all. Used by `bookmarks` and `cli`."""

import contextlib
import os
import stat
import tempfile
from pathlib import Path


def replace(path: Path, data: bytes) -> None:
    """Write a file, or replace it. A symlink stays, and so do mode and owner. Raises `OSError`."""
    path = Path(os.path.realpath(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(descriptor)
            if path.exists():
                before = path.stat()
                if (before.st_uid, before.st_gid) != (os.geteuid(), os.getegid()):
                    with contextlib.suppress(PermissionError):  # root may write a file of a user
                        os.fchown(descriptor, before.st_uid, before.st_gid)
                os.fchmod(descriptor, stat.S_IMODE(before.st_mode))
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
