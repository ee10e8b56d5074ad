"""Other users of this machine, for tests of what they can do to a store. Run by root."""

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

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
