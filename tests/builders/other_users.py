"""Other users of this machine, for tests of what they can do to a store. Run by root."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from builders.namespaces import in_namespace

STRANGER = 65534
OWNER = 12345
"""A user who is neither root nor the stranger."""
DENIED, DONE, FAILED = 13, 0, 1


def as_user(user: int, act: Callable[[], object], *, groups: Sequence[int] = ()) -> int:
    """Do something as another user; `DONE`, or `DENIED` if the system refused."""
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups(groups)
            os.setgid(user)
            os.setuid(user)
            act()
            os._exit(DONE)
        except PermissionError:
            os._exit(DENIED)
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(FAILED)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@contextmanager
def public_folder() -> Iterator[Path]:
    """A folder that all users can reach, unlike those that pytest makes."""
    folder = Path(tempfile.mkdtemp(prefix="zarrfuse-test-"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


_AS_STRANGER = """
import encodings.ascii, os, pkgutil, sys
import typer
import zarrfuse.cli.app, zarrfuse.fuse.operations, zarrfuse.mounts.daemon
import zarrfuse.stores, zarrfuse.transactions, zarrfuse.views
for package in (
    zarrfuse.cli, zarrfuse.mounts, zarrfuse.stores, zarrfuse.views, zarrfuse.transactions, typer
):
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if not module.name.endswith(("__main__", "_winconsole")):
            __import__(module.name)  # another user may not read this Python
os.setgroups([])
os.setresgid(65534, 65534, 65534)
os.setresuid(65534, 65534, 65534)
os.umask(0o027)
sys.exit(zarrfuse.cli.app.main())
"""

_WITH_FUSE_FOR_ALL = """
cd "$1"
rm -f fuse
mknod -m 666 fuse c 10 229
mount --bind fuse /dev/fuse
"""


def as_stranger(folder: Path, script: str) -> subprocess.CompletedProcess[str]:
    """Run a script in a folder, in which everybody may mount, as they may on most machines.

    `"$2" -c "$3"` in it is `zarrfuse`, run by the stranger.
    """
    return in_namespace(_WITH_FUSE_FOR_ALL + script, folder, sys.executable, _AS_STRANGER)
