"""Starts a worker that decodes, and imports what writes headers, before they are needed.

Used by `mounts` in a thread, once the mount is ready: a worker takes 0.5 s to start, tifffile 0.1 s to
import.
"""

import logging

from zarrfuse.errors import text_of

log = logging.getLogger(__name__)


def prepare() -> None:
    """Start a worker and import tifffile. An error here comes again when they are needed."""
    from zarrfuse.decoding.workers import WORKERS  # noqa: PLC0415  # numpy; other views do without

    WORKERS.prepare()
    try:
        import tifffile  # noqa: F401, PLC0415
    except Exception as error:  # of a library that does not fit this machine
        log.warning("no header can be written: %s", text_of(error))
