"""Answers the requests of a daemon in the process that has the store, in a thread with a loop of its own.

Used by `mounts.in_python`. The loop is no loop of the program, which may wait in its own loop for a file of
the mount.
"""

import asyncio
import os
import threading
from contextlib import suppress
from functools import partial
from socket import socket

import msgspec

from zarrfuse.stores.relay.messages import (
    Answer,
    Ask,
    failure_of,
    listed_of,
    packed,
    read_message,
)
from zarrfuse.stores.remote.requests import Requests

_ENDS_WITHIN_S = 5.0
_BUFFERED_BYTES = 1 << 20
_PIECE_BYTES = 256 << 10


class Answering:
    """A thread that answers the requests from a socket until that is closed, or until `stop`."""

    def __init__(self, requests: Requests, connection: socket) -> None:
        self._requests = requests
        self._connection = connection
        self._by_number: dict[int, asyncio.Task[None]] = {}
        self._sending = asyncio.Lock()
        self._loop = asyncio.new_event_loop()
        self._main: asyncio.Task[None] | None = None
        self._thread = threading.Thread(target=self._run, name="zarrfuse-store", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread. It is left alone if the store does not return."""
        with suppress(RuntimeError):  # it has ended
            self._loop.call_soon_threadsafe(self._cancel)
        self._thread.join(_ENDS_WITHIN_S)

    def _cancel(self) -> None:
        if self._main is not None:
            self._main.cancel()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            try:
                runner.run(self._serve())
            except (asyncio.CancelledError, KeyboardInterrupt):
                return

    def _answered(self, number: int, _: asyncio.Task[None]) -> None:
        del self._by_number[number]

    async def _serve(self) -> None:
        self._main = asyncio.current_task()
        reader, writer = await asyncio.open_unix_connection(
            sock=self._connection, limit=_BUFFERED_BYTES
        )
        try:
            while True:
                head, _ = await read_message(reader)
                ask = msgspec.msgpack.decode(head, type=Ask)
                if ask.kind == "cancel":
                    if ask.number in self._by_number:
                        self._by_number[ask.number].cancel()
                    continue
                task = asyncio.create_task(self._answer(ask, writer))
                self._by_number[ask.number] = task
                task.add_done_callback(partial(self._answered, ask.number))
        except (EOFError, ConnectionError):  # the daemon has ended
            return
        finally:
            for task in self._by_number.values():
                task.cancel()
            writer.close()
            self._requests.close()

    async def _answer(self, ask: Ask, writer: asyncio.StreamWriter) -> None:
        data: bytes | memoryview = b""
        answer = Answer(ask.number)
        path = os.fsdecode(ask.path)
        try:
            if ask.kind == "find":
                answer.found = await self._requests.find(path)
            elif ask.kind == "list":
                answer.listed = listed_of(await self._requests.list(path))
            else:
                assert ask.of is not None
                data = await self._requests.get(path, ask.start, ask.stop, ask.of)
        except Exception as error:
            answer.failure = failure_of(error)
        # A message that has begun is sent whole, also if nobody waits for it any more.
        await asyncio.shield(self._send(answer, data, writer))

    async def _send(
        self, answer: Answer, data: bytes | memoryview, writer: asyncio.StreamWriter
    ) -> None:
        async with self._sending:
            try:
                for piece in packed(answer, data):
                    whole = memoryview(piece)
                    # The transport moves all that is left to the front, each time it sent some.
                    for start in range(0, len(whole), _PIECE_BYTES):
                        writer.write(whole[start : start + _PIECE_BYTES])
                        await writer.drain()
            except ConnectionError:  # the daemon has ended, and waits for nothing
                return
