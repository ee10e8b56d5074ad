"""Makes an errno of every exception that a handler raises.

Owns the decorators of the handlers in `operations`. With pyfuse3 any exception but `FUSEError` that leaves
a handler ends the mount. `failures` counts and logs them.
"""

import functools
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

import trio
from pyfuse3 import FUSEError

from zarrfuse.errors import ReadOnly
from zarrfuse.fuse.failures import Failures

P = ParamSpec("P")
T = TypeVar("T")


class Answering(Protocol):
    """What has handlers that are answered."""

    failures: Failures
    counts: dict[str, int]
    """Requests by their kinds."""
    writable: bool


S = TypeVar("S", bound=Answering)


def answered(
    handler: Callable[Concatenate[S, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
    """Turn every exception of a handler into an errno: any other would kill the mount."""
    request = handler.__name__.strip("_").partition("_")[0]

    @functools.wraps(handler)
    async def wrapper(self: S, *args: P.args, **kwargs: P.kwargs) -> T:
        self.counts[request] += 1
        try:
            return await handler(self, *args, **kwargs)
        except (FUSEError, trio.Cancelled):
            raise
        except BaseException as error:  # a store in Rust panics with one
            raise FUSEError(self.failures.note(request, error)) from None

    return wrapper  # type: ignore[return-value]  # functools hides that it is a method


def changing(
    handler: Callable[Concatenate[S, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
    """`answered`, for handlers that need a writable mount."""

    @functools.wraps(handler)
    async def wrapper(self: S, *args: P.args, **kwargs: P.kwargs) -> T:
        if not self.writable:
            raise ReadOnly("the mount is read-only")
        return await handler(self, *args, **kwargs)

    return answered(wrapper)  # type: ignore[arg-type]  # as above
