"""Asks a store something, whatever kind of exception it answers with.

Used by all of `zarrfuse.check` that reads. It must not know what is asked.
"""

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def asked(call: Callable[[], T]) -> T:
    """`call()`, with what is no `Exception` made into one; but Ctrl-C ends the check.

    A store may be any library; one in Rust panics with a `BaseException`.
    """
    try:
        return call()
    except (Exception, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise RuntimeError(f"the store raised {type(error).__name__}") from error
