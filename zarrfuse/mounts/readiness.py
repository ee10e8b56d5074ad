"""What a daemon tells the process that waits for its mount: ready, ready with a warning, or why not.

Used by `daemon`, which tells it, and by `daemon` and `in_python`, which wait for it. It is told through a
pipe, once.
"""

import os

from zarrfuse.errors import MountError

_READY = b"\0"


class Said:
    """The end of the pipe that a daemon has. What is said after the first time is dropped."""

    def __init__(self, sending: int) -> None:
        self._sending = sending

    def ready(self, problem: str | None) -> None:
        """Say that the mount answers; `problem`: a sentence for the user."""
        self._say(_READY + os.fsencode(problem or ""))

    def failed(self, text: str) -> None:
        """Say why there is no mount."""
        self._say(text.encode("utf-8", "surrogateescape"))

    def _say(self, data: bytes) -> None:
        sending, self._sending = self._sending, -1  # another file may get this number next
        if sending >= 0:
            try:
                os.write(sending, data)
            finally:
                os.close(sending)


def heard(receiving: int) -> str | None:
    """Wait for a daemon; what it says of the source, if that is no Zarr. Raises `MountError`.

    Closes the descriptor.
    """
    with os.fdopen(receiving, "rb") as pipe:
        said = pipe.read()
    if not said.startswith(_READY):
        raise MountError(os.fsdecode(said) or "the daemon ended before it was ready")
    return os.fsdecode(said.removeprefix(_READY)) or None
