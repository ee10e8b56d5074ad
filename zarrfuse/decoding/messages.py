"""What the daemon and a worker process that decodes chunks say to each other.

A message is a header and the bytes that it announces, over a socket. One job is answered by one
reply. Used by `workers` on one side and `worker` on the other. It must not import zarr.
"""

import socket
import struct
from collections.abc import Sequence
from itertools import count
from typing import Literal, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]

_LENGTH = struct.Struct("<Q")
_LARGEST_HEADER = 64 << 20
array_numbers = count()
"""Gives each array another number, for `Job.array`."""
CPU_S, CPU_BYTES_PER_S = 5.0, 2e6
"""The processor time of a job: so many seconds, and one more for so many decoded bytes."""


class Wanted(msgspec.Struct, frozen=True, array_like=True):
    """A range of the bytes under a key of the array: from `start` to `stop`, or to the end.

    A negative `start` counts from the end.
    """

    key: str
    start: int = 0
    stop: int | None = None

    def span(self, size: int) -> tuple[int, int]:
        """Where it starts and stops in a file of `size` bytes; what lies behind the end is left out."""
        start = max(0, size + self.start) if self.start < 0 else min(self.start, size)
        return start, size if self.stop is None else max(start, min(self.stop, size))


class Job(msgspec.Struct):
    """Decode a box of an array, or only open the array if `low` is None.

    `array` is the same number for the same document. `shape` and `dtype` (as in an NPY header) are
    what the document is expected to say. `needed_bytes` are those of the elements that have to be
    decoded, `cpu_s` the most seconds of processor time. `brought` are the stored bytes at hand, with
    their number, or None for what is not stored; the bytes follow in this order. With `is_fill`
    the reply is one byte: whether all of the array is the fill value. `low`, `high` and `dtype` do
    not count then.
    """

    array: int
    zarr_format: Literal[2, 3]
    shape: list[int]
    dtype: str
    needed_bytes: int
    cpu_s: float
    low: list[int] | None = None
    high: list[int] | None = None
    brought: list[tuple[Wanted, int | None]] = []
    is_fill: bool = False


class Reply(msgspec.Struct):
    """What became of a job.

    `done`: `nbytes` bytes follow, the elements, or an element of the fill value if the array was
    only opened. `missing`: it needs what is `wanted`, too. `refused`: zarr-python cannot decode the
    array. `stale`: the document is not the expected one. `failed`: this box cannot be decoded.
    `memory`: it would take more than `nbytes` bytes of memory. `is_last`: the process ends now.
    """

    outcome: Literal["done", "missing", "refused", "stale", "failed", "memory"]
    text: str = ""
    wanted: list[Wanted] = []
    nbytes: int = 0
    is_last: bool = False


M = TypeVar("M", Job, Reply)


def cpu_s(needed_bytes: int) -> float:
    """The seconds of processor time for a job that decodes so many bytes."""
    return CPU_S + needed_bytes / CPU_BYTES_PER_S


def send(sock: socket.socket, message: Job | Reply, payload: Sequence[Bytes] = ()) -> None:
    """Send a message and the bytes that it announces."""
    header = msgspec.msgpack.encode(message)
    sock.sendall(_LENGTH.pack(len(header)) + header)
    for part in payload:
        if part.size:
            sock.sendall(part.data)


def receive(sock: socket.socket, kind: type[M]) -> M:
    """The header of the next message. Raises `EOFError` if the other side has ended."""
    (length,) = _LENGTH.unpack(receive_bytes(sock, _LENGTH.size).tobytes())
    if length > _LARGEST_HEADER:
        raise ValueError(f"a header of {length} bytes")
    return msgspec.msgpack.decode(receive_bytes(sock, length).tobytes(), type=kind)


def receive_bytes(sock: socket.socket, count: int) -> Bytes:
    """The next `count` bytes. Raises `EOFError` as `receive`."""
    found: Bytes = np.empty(count, np.uint8)
    filled = 0
    while filled < count:
        # Waits in the kernel for all of them: a socket holds 200 KiB.
        got = sock.recv_into(found.data[filled:], count - filled, socket.MSG_WAITALL)
        if not got:
            raise EOFError("the other side has ended")
        filled += got
    return found
