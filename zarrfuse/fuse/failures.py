"""Counts and logs requests that failed, as faults or as refusals.

A fault needs attention: the store does not answer, is full or damaged, the daemon lacks memory or
descriptors, or zarrfuse has a bug. A refusal is any other errno: there is no such name, the mount is
read-only, the node must not be loaded. After most ESTALE the kernel repeats the request, and no program
sees them: they count as refusals.
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
_UNCLEAR = frozenset({errno.EINVAL, errno.ENOSPC, errno.EDQUOT})
"""Errors of a write whose reason the errno alone does not tell: it is logged."""


class Failures:
    """Counters by the name of the errno, and the last message by the name of the request.

    `writable`: failures to store are logged as warnings, each time.
    """

    def __init__(self, *, writable: bool = False) -> None:
        self._writable = writable
        self._errors: Counter[str] = Counter()
        self._refusals: Counter[str] = Counter()
        self._last_errors: dict[str, str] = {}
        self._last_refusals: dict[str, str] = {}
        self._logged: set[str] = set()

    def note(self, request: str, error: BaseException) -> int:
        """The errno for an error. An unexpected one is logged with its traceback, once."""
        code, text = errno_of(error), text_of(error)
        is_fault = code in FAULTS
        (self._errors if is_fault else self._refusals)[errorcode[code]] += 1
        (self._last_errors if is_fault else self._last_refusals)[request] = text
        if is_expected(error):
            is_warned = self._writable and (request in _STORING or code in _UNCLEAR)
            log.log(logging.WARNING if is_warned else logging.DEBUG, "%s: %s", request, text)
        elif text not in self._logged and len(self._logged) < _MOST_LOGGED:
            self._logged.add(text)
            log.error("%s failed, answered as %s", request, errorcode[code], exc_info=error)
        return code

    def status(self) -> dict[str, Any]:
        """The members of `.zarrfuse/status.json` for them."""
        return {
            "errors": dict(self._errors),
            "refusals": dict(self._refusals),
            "last_errors": self._last_errors,
            "last_refusals": self._last_refusals,
        }
