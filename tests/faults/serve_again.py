"""Mounts again and again without importing anything again, for tests that kill many daemons.

Each line on stdin is a JSON array: the arguments of `zarrfuse mount --foreground`, and a file for its
log in front. The answer is the process id of the daemon, a line; the next one, when it has ended, is
what it ended with, as `os.waitpid` tells it.
"""

import json
import os
import sys

from zarrfuse import cli, daemon  # noqa: F401  (the daemon, so that no child imports it)


def _serve(log: str, arguments: list[str]) -> None:
    nothing = os.open(os.devnull, os.O_RDONLY)
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.dup2(nothing, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    sys.argv = ["zarrfuse", "mount", "--foreground", *arguments]
    cli.main()


def main() -> None:
    """See the module."""
    for line in sys.stdin:
        log, *arguments = json.loads(line)
        child = os.fork()
        if not child:
            code = 1
            try:
                _serve(log, arguments)
                code = 0
            except SystemExit as exit_:
                code = exit_.code if isinstance(exit_.code, int) else 1
            finally:
                os._exit(code)
        print(child, flush=True)
        print(os.waitpid(child, 0)[1], flush=True)


if __name__ == "__main__":
    main()
