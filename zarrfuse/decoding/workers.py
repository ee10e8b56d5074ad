"""The processes that decode chunks: started when they are needed, replaced when they end.

Used by all that decode in a daemon; `worker` is what runs there. Each does one job at a time, so
what ends one is the job that it had. They end with this process, whatever ends it: their socket is
closed then.
"""

import atexit
import errno
import logging
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress

import msgspec

from zarrfuse.decoding.messages import Bytes, Job, Reply, receive, receive_bytes, send
from zarrfuse.errors import text_of

log = logging.getLogger(__name__)

_MOST = 2
"""Each decodes the chunks of a job in several threads; this process fetches and copies meanwhile."""
_START_S = 60.0
_WAIT_S, _WAIT_BYTES_PER_S = 60.0, 1e6
"""A worker whose codec takes no processor time is limited by that, and given up after this."""
_PROGRAM = (
    "import sys; sys.path[:] = sys.argv[2:]; "
    "from zarrfuse.decoding.worker import main; main(int(sys.argv[1]))"
)
_BY_OTHERS = (-signal.SIGKILL, -signal.SIGTERM)
"""The kernel, out of memory, or a user: of no fault of the job."""
_TOO_LONG = "it takes too long"
_TRIES = 3
_END_S = 1.0
_WORKER_ERRORS = (EOFError, OSError, ValueError, msgspec.DecodeError)


class Crashed(Exception):
    """The process ended over its job; the text says how, as a clause."""


class Workers:
    """At most `most` processes. For any thread."""

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._idle: list[_Worker] = []
        self._count = 0
        """Those that are idle, at work, or being started."""
        self._problem: str | None = None
        self._change = threading.Condition()

    def prepare(self) -> None:
        """Start a process, if there is none, without waiting for it."""
        with self._change:
            if not self._count:
                self._start()

    def do(self, job: Job, payload: Sequence[Bytes]) -> tuple[Reply, Bytes]:
        """The reply to a job, and the bytes that follow it.

        Raises `Crashed`, and `OSError` if there is no process that could do it.
        """
        for _ in range(_TRIES):
            worker = self._taken()
            try:
                reply, found = worker.do(job, payload)
            except BaseException as error:
                status = self._ended(worker)
                if not isinstance(error, _WORKER_ERRORS):
                    raise
                if worker.fault is not None or status not in _BY_OTHERS:
                    raise Crashed(worker.fault or _clause(status)) from error
                log.warning("a process that decodes chunks was killed")
                continue
            if reply.is_last:
                self._ended(worker)
            else:
                with self._change:
                    self._idle.append(worker)
                    self._change.notify()
            return reply, found
        raise OSError(errno.ENOMEM, "the processes that decode chunks are killed again and again")

    def close(self) -> None:
        """End the processes that are idle."""
        with self._change:
            while self._idle:
                self._idle.pop().end()
                self._count -= 1

    def _ended(self, worker: "_Worker") -> int:
        """The exit status of a process that is of no more use."""
        status = worker.end()
        with self._change:
            self._count -= 1
            self._change.notify()
        return status

    def _taken(self) -> "_Worker":
        """A process that is idle now. A further one is started for who has to wait."""
        with self._change:
            self._problem = None
            while True:
                while self._idle:
                    worker = self._idle.pop()
                    if worker.is_alive():
                        return worker
                    worker.end()
                    self._count -= 1
                if self._problem is not None:
                    raise OSError(errno.EIO, f"no process can be started: {self._problem}")
                if self._count < self._most:
                    self._start()
                self._change.wait()

    def _start(self) -> None:
        threading.Thread(target=self._started, name="zarrfuse-decoder", daemon=True).start()
        self._count += 1

    def _started(self) -> None:
        worker, problem = None, None
        try:
            worker = _Worker()
        except Exception as error:
            problem = text_of(error)
            log.warning("no chunk can be decoded: %s", problem)
        with self._change:
            if worker is None:
                self._count -= 1
                self._problem = problem
                self._change.notify_all()
            else:
                self._idle.append(worker)
                self._change.notify()


class _Worker:
    """One process, once it is ready. Raises what keeps it from starting."""

    def __init__(self) -> None:
        self.fault: str | None = None
        """Why it is ended, as a clause, where it does not end by itself."""
        self._socket, theirs = socket.socketpair()
        with theirs:
            number = theirs.fileno()
            path = [entry for entry in sys.path if entry]
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", _PROGRAM, str(number), *path],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[number],
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},  # else each takes memory
            )
        try:
            self._patience(_START_S)
            hello = receive(self._socket, Reply)
            if hello.outcome != "done":
                raise RuntimeError(hello.text)
        except EOFError:
            raise RuntimeError(_clause(self.end())) from None
        except BaseException:
            self.end()
            raise

    def do(self, job: Job, payload: Sequence[Bytes]) -> tuple[Reply, Bytes]:
        """See `Workers.do`. Raises one of `_WORKER_ERRORS` if the process is of no more use."""
        self._patience(_WAIT_S + job.needed_bytes / _WAIT_BYTES_PER_S)
        try:
            send(self._socket, job, payload)
            reply = receive(self._socket, Reply)
            count = reply.nbytes if reply.outcome == "done" else 0
            if count > job.needed_bytes:
                raise ValueError(
                    f"{count} bytes, and no more than {job.needed_bytes} were asked for"
                )
            return reply, receive_bytes(self._socket, count)
        except BlockingIOError:
            self.fault = _TOO_LONG
            raise
        except (ValueError, msgspec.DecodeError) as error:
            self.fault = f"the codec made the process answer nonsense: {error}"
            raise

    def is_alive(self) -> bool:
        """Whether the process has not ended."""
        return self._process.poll() is None

    def end(self) -> int:
        """End the process if it has not ended by itself: its exit status."""
        self._socket.close()
        with suppress(subprocess.TimeoutExpired):
            if self.fault is None:  # it ends when its socket is closed, unless it is at work
                return self._process.wait(_END_S)
        self._process.kill()
        return self._process.wait()

    def _patience(self, seconds: float) -> None:
        """How long to wait for the other side."""
        value = struct.pack("ll", int(seconds), 0)
        for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            self._socket.setsockopt(socket.SOL_SOCKET, option, value)


def _clause(status: int) -> str:
    """How a process ended, as a clause."""
    if status == -signal.SIGPROF:
        return _TOO_LONG
    if status < 0:
        return f"the process crashed ({signal.Signals(-status).name})"
    return f"the process ended with status {status}"


WORKERS = Workers()
"""Those of this process: several mounts' or stores' decoders share them."""

atexit.register(WORKERS.close)
# A forked child must not talk to the processes of its parent.
os.register_at_fork(after_in_child=WORKERS.__init__)  # type: ignore[misc]
