"""Whether a private copy that was created exclusively must still find nothing under its name.

Owns when that ends. Used by who makes private copies: `ordinary`, `chunk_writing`, `plain_documents`.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from zarrfuse.writing.spool import Spool


class UntilStored:
    """True until a copy has been stored once, also if that has failed behind the renaming: else who
    tries again would find his own file in the way."""

    def __init__(self, new: bool) -> None:
        self._new = new

    @contextmanager
    def storing(self, spool: Spool) -> Iterator[bool]:
        """Around storing the bytes of a spool file; whether storing must raise `Exists`."""
        try:
            yield self._new
        except BaseException:
            if spool.is_given:
                self._new = False
            raise
        self._new = False
