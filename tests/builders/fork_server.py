"""Runs the `zarrfuse` command in a fork of a process that has imported it: the start costs nothing.

Each command is a process of its own, with its own arguments, environment and output, as
`python -m zarrfuse` is; what differs is that Python has started and imported before, and ends without
taking itself apart: 0.03 s instead of 0.4 s. `Forks` asks; run as a script this file is the server, a
process for all commands of one that runs tests. It ends with who started it.
"""

import contextlib
import ctypes
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any, NoReturn

_MOST_BYTES = 200_000
"""Of what a command is asked for with; most is the environment."""
_ROOM = "-" * 1000
"""An argument of the server that its forks write over, so that `ps` shows what they do."""


class Forked:
    """A command that runs. What it has of `subprocess.Popen` is as there."""

    def __init__(self, arguments: list[str], told: socket.socket) -> None:
        self.args = arguments
        self.returncode: int | None = None
        self._told = told
        self.pid = int(told.recv(32))

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not select.select([self._told], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
            self.returncode = int(self._told.recv(32))
            self._told.close()
        return self.returncode

    def poll(self) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Forks:
    """Starts commands."""

    def __init__(self) -> None:
        self._socket, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with other:
            self._server = subprocess.Popen(
                [sys.executable, __file__, str(other.fileno()), _ROOM],
                stdin=subprocess.DEVNULL,
                pass_fds=[other.fileno()],
                env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
            )

    def start(self, *arguments: object, stdout: int, stderr: int) -> Forked:
        """Start `zarrfuse` with these arguments, and descriptors to write to."""
        texts = [str(argument) for argument in arguments]
        asked = json.dumps([texts, os.getcwd(), dict(os.environ)]).encode()
        told, telling = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with telling:
            socket.send_fds(self._socket, [asked], [telling.fileno(), stdout, stderr])
        return Forked(texts, told)


def _serve(asked: socket.socket) -> None:
    """Fork for each command, until nobody is left who asks."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody has to wait for who watches a command
    while True:
        data, descriptors, _, _ = socket.recv_fds(asked, _MOST_BYTES, 3)
        if not data:
            return
        if os.fork() == 0:
            asked.close()
            _watch(json.loads(data), *descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def _watch(asked: Any, telling: int, stdout: int, stderr: int) -> None:
    """Fork once more: run the command there, tell its process id here, and what it ended with."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    child = os.fork()
    if child == 0:
        os.close(telling)
        _run(*asked, stdout, stderr)
    os.close(stdout)
    os.close(stderr)
    with contextlib.suppress(BrokenPipeError):
        os.write(telling, b"%d" % child)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        os.write(telling, b"%d" % code)
    os._exit(0)


def _run(arguments: list[str], folder: str, environment: dict[str, str], *outputs: int) -> NoReturn:
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    if folders := environment.get("PYTHONPATH"):  # may have been set since the server started
        sys.path[:0] = folders.split(os.pathsep)
    for descriptor, output in enumerate(outputs, 1):
        os.dup2(output, descriptor)
        os.close(output)
    sys.argv = ["zarrfuse", *arguments]
    _show(sys.argv)
    code: object = 1
    try:
        code = cli.main()
    except SystemExit as ended:
        code = ended.code
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else code is not None)


def _show(arguments: list[str]) -> None:
    """Write these over the command line of this process."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    start, end = int(fields[45]), int(fields[46])
    text = b"\0".join(map(os.fsencode, arguments))[: end - start - 1]
    ctypes.memmove(start, text.ljust(end - start, b"\0"), end - start)


if __name__ == "__main__":
    # What the commands import when they run.
    import zarrfuse.check.run
    import zarrfuse.cli.info
    import zarrfuse.mounts.daemon  # noqa: F401
    from zarrfuse.cli import app as cli

    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # which who started the tests may ignore
    gc.freeze()  # else each fork would copy this memory when it looks for cycles
    _serve(socket.socket(fileno=int(sys.argv[1])))
