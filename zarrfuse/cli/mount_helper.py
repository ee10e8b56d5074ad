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


def main() -> NoReturn:
    """The `mount.zarrfuse` command."""
    try:
        options, operands = gnu_getopt(sys.argv[1:], "sfnvN:o:t:")
    except GetoptError as error:
        _end(f"mount.zarrfuse: {error}")
    given = dict(options)
    if "-N" in given:
        _end("mount.zarrfuse: a mount in another namespace is made by nsenter(1)")
    if len(operands) != 2:
        _end("mount.zarrfuse SOURCE MOUNTPOINT [-sfnv] [-o OPTIONS]")
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
