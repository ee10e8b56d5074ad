"""Imports the libraries that decode and write headers, before somebody waits for them.

Used by `daemon` in a thread of its own, once a mount is ready: zarr-python takes 0.4 s, tifffile
0.1 s; and by `decode` and `zarr_array` when a chunk is to be decoded before that.
"""

import logging
import threading
from types import ModuleType

from zarrfuse.errors import text_of

log = logging.getLogger(__name__)

_importing = threading.Lock()


def import_libraries() -> None:
    """Import zarr-python and tifffile. What fails here is told of again by whoever needs it."""
    try:
        zarr_python()
        import tifffile  # noqa: F401, PLC0415
    except Exception as error:  # of a library that does not fit this machine
        log.warning("no chunk can be decoded: %s", text_of(error))


def zarr_python() -> ModuleType:
    """The package `zarr`. One thread imports it while the others wait.

    Its modules import one another in circles: two threads that begin at different ends wait for each
    other, and Python gives one of them a half-made module.
    """
    with _importing:
        import zarr  # noqa: PLC0415

        import zarrfuse.keys_store  # noqa: F401, PLC0415
    return zarr
