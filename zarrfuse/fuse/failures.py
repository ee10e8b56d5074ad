"""Requests that failed: counted and logged, faults apart from refusals.

A fault is what somebody should look into: the store does not answer, is full or damaged, the daemon
lacks memory or descriptors, or there is an error in zarrfuse. A refusal is any other errno: there is no
such name, the mount is read-only, the node must not be loaded. Most ESTALE are repeated by the kernel and
never reach a program; they are counted as refusals.

Used by `fuse`; knows nothing of requests but their names.
"""

import errno
import logging
from collections import Counter
from errno import errorcode
from typing import Any

from zarrfuse.errors import FAULTS, errno_of, is_expected, text_of

log = logging.getLogger(__name__)

_MOST_LOGGED = 1000
_STORING = frozenset({"flush", "fsync", "release"})
_TOLD = frozenset({errno.EINVAL, errno.ENOSPC, errno.EDQUOT})
"""Errors that say no more to a person than that something is wrong."""


class Failures:
    """Counters by the name of the errno, and the last message by the name of the request.

    `writable`: why something was not stored is told in the log each time.
    """

    def __init__(self, *, writable: bool = False) -> None:
        self._writable = writable
        self._errors: Counter[str] = Counter()
        self._refusals: Counter[str] = Counter()
        self._last_errors: dict[str, str] = {}
        self._last_refusals: dict[str, str] = {}
        self._logged: set[str] = set()

    def note(self, request: str, error: BaseException) -> int:
        """The errno for an error; what is not expected is logged with its traceback, once."""
        code, text = errno_of(error), text_of(error)
        is_fault = code in FAULTS
        (self._errors if is_fault else self._refusals)[errorcode[code]] += 1
        (self._last_errors if is_fault else self._last_refusals)[request] = text
        if is_expected(error):
            is_told = self._writable and (request in _STORING or code in _TOLD)
            log.log(logging.WARNING if is_told else logging.DEBUG, "%s: %s", request, text)
        elif text not in self._logged and len(self._logged) < _MOST_LOGGED:
            self._logged.add(text)
            log.error("%s failed, answered as %s", request, errorcode[code], exc_info=error)
        return code

    def status(self) -> dict[str, Any]:
        """What `.zarrfuse/status.json` says of them."""
        return {
            "errors": dict(self._errors),
            "refusals": dict(self._refusals),
            "last_errors": self._last_errors,
            "last_refusals": self._last_refusals,
        }
