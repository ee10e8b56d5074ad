"""A proxy in front of an HTTP server that does wrong what networks and servers do wrong, by a seed.

In a process of its own, as `object_server` is and for the same reason. Which request has which fault
depends on the seed and on the number of the request alone. Started as a script it serves until its standard
input ends, and takes from there, a line each, what faults there shall be from now on.
"""

import asyncio
import json
import random
import re
import socket
import struct
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from typing import Any

KINDS = ("latency", "burst", "cut", "stall", "wrong_length", "etag", "refuse", "slow")
_ERRORS = (
    (429, "Too Many Requests"),
    (500, "Internal Server Error"),
    (503, "Service Unavailable"),
)
_PIECES = 20
_MOST_OF_A_HEAD = 1 << 20


@dataclass(frozen=True)
class Faults:
    """What goes wrong: each request with probability `rate`, in one of the ways `kinds`.

    latency: the answer comes `latency_s` later.
    burst: this one and the next, `burst` in all, are answered 429, 500 or 503, half with Retry-After.
    cut: the connection is closed in the middle of the answer.
    stall: nothing is sent for `stall_s`, from the beginning or from the middle on; then it is closed.
    wrong_length: Content-Length is more than is sent; of a range also: fewer bytes than Content-Range says,
        or another range of the same length.
    etag: the ETag is that of another object.
    refuse: the connection is reset, and the server never sees the request.
    slow: the body takes `slow_s`, in pieces.

    A fault that an answer cannot have (`cut` and `stall` can be had by all, `wrong_length` needs a body,
    `etag` an ETag) is none. `path`: only requests with this in their target. `limit`: so many faults, then
    no more.
    """

    rate: float = 0.0
    kinds: tuple[str, ...] = KINDS
    seed: int = 0
    path: str = ""
    limit: int | None = None
    latency_s: float = 0.2
    stall_s: float = 60.0
    slow_s: float = 1.0
    burst: int = 3
    retry_after_s: int = 1


@dataclass(frozen=True)
class Asked:
    """A request that was made: its `Range`, if any, and the kind of its fault, if any."""

    method: str
    target: str
    range: str | None
    fault: str | None


class FaultProxy:
    """A running proxy in front of a port of this machine."""

    def __init__(self, port: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.port = int(self._said())

    def set(self, **faults: Any) -> None:
        """From now on these (`Faults`); without any, none. Requests are numbered anew."""
        self._tell({"faults": asdict(Faults(**faults))})

    def asked(self) -> list[Asked]:
        """The requests since it was started."""
        return [Asked(*row) for row in self._tell({"asked": True})]

    def faults(self) -> Counter[str]:
        """How many faults of each kind there were."""
        return Counter(request.fault for request in self.asked() if request.fault is not None)

    def most_at_once(self) -> int:
        """How many requests were out at the same time at most."""
        return self._tell({"most": True})

    def hang_up(self) -> None:
        """Close all connections of clients, as a server closes those that nobody has used for long."""
        self._tell({"hang_up": True})

    def stop(self) -> None:
        """End it; from then on connections are refused."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(30)
        self._process.stdout.close()

    def _tell(self, what: dict[str, Any]) -> Any:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(what).encode() + b"\n")
        self._process.stdin.flush()
        return json.loads(self._said())

    def _said(self) -> bytes:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the proxy has ended"
        return line


@contextmanager
def fault_proxy(port: int) -> Iterator[FaultProxy]:
    """A proxy in front of a port of this machine, without faults until it is told of some."""
    proxy = FaultProxy(port)
    try:
        yield proxy
    finally:
        proxy.stop()


@dataclass
class _Message:
    """A request or an answer; the names of its headers as they were sent."""

    first: str
    headers: list[tuple[str, str]]
    body: bytes = b""

    def get(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key.lower() == name), None)

    def with_headers(self, **changed: str | None) -> "_Message":
        """With these instead of what there is of their names; `_` stands for `-`, None for none."""
        new = {name.replace("_", "-"): value for name, value in changed.items()}
        kept = [(key, value) for key, value in self.headers if key.lower() not in new]
        added = [(name, value) for name, value in new.items() if value is not None]
        return replace(self, headers=kept + added)

    def head(self) -> bytes:
        lines = [self.first, *(f"{name}: {value}" for name, value in self.headers), "", ""]
        return "\r\n".join(lines).encode("latin-1")

    @property
    def status(self) -> int:
        return int(self.first.split(" ")[1])


class _Plan:
    """Which request has which fault."""

    def __init__(self, faults: Faults) -> None:
        self.faults = faults
        self._chance = random.Random(faults.seed)
        self._left_of_burst = 0
        self._made = 0

    def next(self, target: str) -> str | None:
        """The fault of the next request."""
        faults = self.faults
        if faults.path not in target or self._made == faults.limit:
            return None
        if self._left_of_burst:
            self._left_of_burst -= 1
            return "burst"
        if self._chance.random() >= faults.rate:
            return None
        kind = self._chance.choice(faults.kinds)
        if kind == "burst":
            # So few begin that, with what follows them, `rate` of the requests have a fault.
            if self._chance.random() * (faults.burst - faults.rate * (faults.burst - 1)) >= 1:
                return None
            self._left_of_burst = faults.burst - 1
        return kind

    def made(self) -> random.Random:
        """Count a fault that is made; the chance that tells how."""
        self._made += 1
        return random.Random(f"{self.faults.seed} {self._made}")


@dataclass
class _Server:
    """The proxy in its own process."""

    port: int
    plan: _Plan = field(default_factory=lambda: _Plan(Faults()))
    asked: list[Asked] = field(default_factory=list)
    connections: set[asyncio.StreamWriter] = field(default_factory=set)
    at_once: int = 0
    most_at_once: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        self.connections.add(writer)
        try:
            while (request := await _read_message(reader)) is not None:
                self.at_once += 1
                self.most_at_once = max(self.most_at_once, self.at_once)
                try:
                    goes_on = await self._answer(request, reader, writer)
                finally:
                    self.at_once -= 1
                if not goes_on:
                    break
        except (OSError, asyncio.IncompleteReadError):
            pass  # the client went away
        finally:
            self.connections.discard(writer)
            writer.close()

    async def _answer(
        self, request: _Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """Whether the connection can take another request."""
        method, target, _ = request.first.split(" ", 2)
        plan = self.plan
        kind = plan.next(target)
        faults = plan.faults
        index = len(self.asked)
        self.asked.append(Asked(method, target, request.get("range"), None))

        def made(kind: str) -> random.Random:
            self.asked[index] = replace(self.asked[index], fault=kind)
            return plan.made()

        if kind == "refuse":
            made(kind)
            _reset(writer)
            return False
        if kind == "burst":
            answer = _error(made(kind), faults)
            await _send(writer, answer.head(), b"" if method == "HEAD" else answer.body)
            return True
        answer = await self._upstream(request)
        if kind == "latency":
            made(kind)
            await asyncio.sleep(faults.latency_s)
        if kind == "etag" and answer.get("etag") is not None:
            answer = answer.with_headers(etag=f'"{made(kind).randbytes(16).hex()}"')
        if kind == "wrong_length" and answer.body:
            return await self._send_wrong_length(request, answer, writer, made(kind))
        if kind == "slow" and answer.body:
            made(kind)
            await _send(writer, answer.head())
            steps = [len(answer.body) * number // _PIECES for number in range(_PIECES + 1)]
            for start, stop in pairwise(steps):
                await asyncio.sleep(faults.slow_s / _PIECES)
                await _send(writer, answer.body[start:stop])
            return True
        if kind == "cut" or kind == "stall":
            chance = made(kind)
            all_of_it = answer.head() + answer.body
            begun = len(answer.head()) + len(answer.body) // 2 if answer.body else 9
            if kind == "cut" or chance.random() < 0.5:
                await _send(writer, all_of_it[:begun])
            if kind == "stall":
                await _until_it_goes_away(reader, faults.stall_s)
            return False
        await _send(writer, answer.head(), answer.body)
        return True

    async def _send_wrong_length(
        self,
        request: _Message,
        answer: _Message,
        writer: asyncio.StreamWriter,
        chance: random.Random,
    ) -> bool:
        asked = re.fullmatch(r"bytes=(\d+)-(\d+)", request.get("range") or "")
        way = chance.choice(("longer", "shorter", "shifted"))
        if asked is not None and answer.status == 206 and way == "shifted":
            start, stop = int(asked[1]), int(asked[2])
            by = -min(start, 16) or 1
            moved = request.with_headers(range=f"bytes={start + by}-{stop + by}")
            other = await self._upstream(moved)
            if other.status == 206:
                await _send(writer, other.head(), other.body)
                return True
        if asked is not None and answer.status == 206 and way == "shorter":
            body = answer.body[: len(answer.body) // 2]
            shorter = answer.with_headers(content_length=str(len(body)))
            await _send(writer, shorter.head(), body)
            return True
        longer = answer.with_headers(content_length=str(len(answer.body) + 7))
        await _send(writer, longer.head(), answer.body)
        return False

    async def _upstream(self, request: _Message) -> _Message:
        """What the server answers, with a Content-Length."""
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self.port, limit=_MOST_OF_A_HEAD
        )
        try:
            alone = request.with_headers(
                connection="close",
                expect=None,
                transfer_encoding=None,
                content_length=str(len(request.body)) if request.body else None,
            )
            if request.first.startswith(("PUT", "POST")):
                alone = alone.with_headers(content_length=str(len(request.body)))
            await _send(writer, alone.head(), request.body)
            is_head = request.first.startswith("HEAD ")
            answer = await _read_message(reader, is_answer=True, has_body=not is_head)
            if answer is None:
                raise ConnectionResetError("the server closed the connection")
        finally:
            writer.close()
        version, rest = answer.first.split(" ", 1)
        assert version.startswith("HTTP/")
        answer.first = f"HTTP/1.1 {rest}"
        length = answer.get("content-length") if is_head else str(len(answer.body))
        if answer.status in (204, 304):
            length = None
        return answer.with_headers(
            connection=None, keep_alive=None, transfer_encoding=None, content_length=length
        )

    def told(self, line: bytes) -> Any:
        """What is answered to a line of standard input."""
        what = json.loads(line)
        if "faults" in what:
            given = what["faults"]
            self.plan = _Plan(Faults(**{**given, "kinds": tuple(given["kinds"])}))
            return None
        if "asked" in what:
            return [[one.method, one.target, one.range, one.fault] for one in self.asked]
        if "hang_up" in what:
            for connection in self.connections:
                connection.close()
            return None
        return self.most_at_once


async def _read_message(
    reader: asyncio.StreamReader, *, is_answer: bool = False, has_body: bool = True
) -> _Message | None:
    """The next message of a connection; None if there is none."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise
        return None
    first, *lines = head.decode("latin-1").split("\r\n")[:-2]
    pairs = [line.partition(":") for line in lines]
    message = _Message(first, [(name, value.strip()) for name, _, value in pairs])
    if is_answer and message.status in (204, 304):
        return message
    if not has_body:
        return message
    length = message.get("content-length")
    if (message.get("transfer-encoding") or "").lower() == "chunked":
        while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
            message.body += (await reader.readexactly(size + 2))[:-2]
        while await reader.readuntil(b"\r\n") != b"\r\n":
            pass
    elif length is not None:
        message.body = await reader.readexactly(int(length))
    elif is_answer:
        message.body = await reader.read()
    return message


def _error(chance: random.Random, faults: Faults) -> _Message:
    code, reason = chance.choice(_ERRORS)
    body = b"<Error><Code>SlowDown</Code><Message>not now</Message></Error>"
    headers = [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))]
    if chance.random() < 0.5:
        headers.append(("Retry-After", str(faults.retry_after_s)))
    return _Message(f"HTTP/1.1 {code} {reason}", headers, body)


def _reset(writer: asyncio.StreamWriter) -> None:
    """Close a connection so that the other side sees an error."""
    connection = writer.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def _send(writer: asyncio.StreamWriter, *data: bytes) -> None:
    writer.write(b"".join(data))
    await writer.drain()


async def _until_it_goes_away(reader: asyncio.StreamReader, seconds: float) -> None:
    """Wait so long, or until the client closes the connection."""
    try:
        async with asyncio.timeout(seconds):
            await reader.read()
    except TimeoutError:
        return


async def _main() -> None:
    state = _Server(int(sys.argv[1]))
    server = await asyncio.start_server(state.serve, "127.0.0.1", 0, limit=_MOST_OF_A_HEAD)
    print(server.sockets[0].getsockname()[1], flush=True)
    told = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(told), sys.stdin)
    while line := await told.readline():
        print(json.dumps(state.told(line)), flush=True)


if __name__ == "__main__":
    asyncio.run(_main())
