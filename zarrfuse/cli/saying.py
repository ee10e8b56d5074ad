"""What commands say on stderr, and how Ctrl-C ends those that can go on. Used by the others of `cli`."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from zarrfuse.errors import ZarrfuseError, text_of

_EXIT_INTERRUPTED = 130


def say(line: str) -> None:
    """Print a line."""
    print(f"zarrfuse: {line}", file=sys.stderr)


def sentence_of(error: ZarrfuseError | OSError) -> str:
    """What a command says of an error that ends it."""
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    return text_of(error) if isinstance(error, OSError) else str(error)


@contextmanager
def interruptible() -> Iterator[None]:
    """A block that Ctrl-C ends with a line and code 130. The same command goes on with its work."""
    try:
        yield
    except KeyboardInterrupt:
        say("interrupted; the same command goes on")
        raise typer.Exit(_EXIT_INTERRUPTED) from None
