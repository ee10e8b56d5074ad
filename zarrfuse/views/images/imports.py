"""Readies what decodes and writes headers, before somebody waits for it.

Used by `daemon` in a thread of its own, once a mount is ready: a process that decodes takes 0.5 s to
start, tifffile 0.1 s to import.
"""

import logging

from zarrfuse.errors import text_of

log = logging.getLogger(__name__)


def prepare() -> None:
    """Start a process and import tifffile. What fails here is told of again by whoever needs it."""
    from zarrfuse.decoding.workers import WORKERS  # noqa: PLC0415  # numpy; other views do without

    WORKERS.prepare()
    try:
        import tifffile  # noqa: F401, PLC0415
    except Exception as error:  # of a library that does not fit this machine
        log.warning("no header can be written: %s", text_of(error))
