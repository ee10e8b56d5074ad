"""`mount.zarrfuse SOURCE MOUNTPOINT [-sfnv] [-N NAMESPACE] [-o OPTIONS]`, which mount(8) runs.

Owns its arguments (mount(8), "EXTERNAL HELPERS") and exit codes. It runs the command `mount`.
"""

import sys
from getopt import GetoptError, gnu_getopt
from typing import NoReturn

from zarrfuse.cli.app import commands, run
from zarrfuse.cli.mount_command import flags_of
from zarrfuse.cli.mount_words import escaped, is_known, words_of
from zarrfuse.cli.saying import say

_USAGE, _FAILED = 1, 32  # as mount(8) has them
_SYNOPSIS = "mount.zarrfuse SOURCE MOUNTPOINT [-sfnv] [-N NAMESPACE] [-o OPTIONS]"
_HELP = f"""Usage: {_SYNOPSIS}

  mount(8) runs this for the type zarrfuse, also for lines of /etc/fstab:

    mount -t zarrfuse SOURCE MOUNTPOINT -o view=images,allow_other

  OPTIONS are the long options of `zarrfuse mount`, by their names, and those of
  mount(8): see `zarrfuse mount --help`, and `man mount.zarrfuse`.

  -s              Drop options that mean nothing, instead of refusing them.
  -f              Do nothing.
  -n, -v          Have no effect.
  -N NAMESPACE    Is refused: use nsenter(1).
  -h, --help      Show this message and exit."""


def main() -> NoReturn:
    """The `mount.zarrfuse` command."""
    try:
        options, operands = gnu_getopt(sys.argv[1:], "sfnvhN:o:t:", ["help"])
    except GetoptError as error:
        _end(f"mount.zarrfuse: {error}")
    given = dict(options)
    if given.keys() & {"-h", "--help"}:
        print(_HELP)
        sys.exit(0)
    if "-N" in given:
        _end("mount.zarrfuse: a mount in another namespace is made by nsenter(1)")
    if len(operands) != 2:
        _end(_SYNOPSIS)
    if "-f" in given:
        sys.exit(0)
    words = [word for name, text in options if name == "-o" for word in words_of(text)]
    if "-s" in given:
        flags = flags_of(commands()["mount"])
        words = [word for word in words if is_known(word, flags)]
    try:
        run(["mount", *(f"-o{escaped(word)}" for word in words), "--", *operands])
    except SystemExit as end:
        codes: dict[object, int] = {0: 0, None: 0, 2: _USAGE}
        sys.exit(codes.get(end.code, _FAILED))


def _end(sentence: str) -> NoReturn:
    say(sentence)
    sys.exit(_USAGE)
