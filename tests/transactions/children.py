"""Child processes that do some work, and may die during it."""

import os
import sys
from collections.abc import Callable

ENDED, DIED, FAILED = 0, 9, 1


def die() -> None:
    """As if killed: nothing is cleaned up."""
    os._exit(DIED)


def in_child(run: Callable[[], None]) -> int:
    """Run something in a child process; its exit code."""
    pid = os.fork()
    if pid == 0:
        try:
            run()
            os._exit(ENDED)
        except BaseException:
            sys.excepthook(*sys.exc_info())
            os._exit(FAILED)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
