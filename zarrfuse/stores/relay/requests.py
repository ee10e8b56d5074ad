"""`RelayedRequests`: the requests of a remote store, answered by another process over a socket.

Used by `mounts.own_process`. `answering` is the other end.
"""

import asyncio
import contextlib
import itertools
import os
from dataclasses import dataclass
from socket import socket

import msgspec

from zarrfuse.errors import ZarrfuseError
from zarrfuse.stores.relay.messages import Answer, Ask, listing_of, packed, raised, read_message
from zarrfuse.stores.remote.requests import Found, Listing

_BUFFERED_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class Relayed:
    """What is known of the store from the beginning; see `Requests`."""

    url: str
    permanent: bool
    lists_all: bool


class RelayedRequests:
    """Implements `remote.requests.Requests`."""

    def __init__(self, connection: socket, known: Relayed) -> None:
        self.url = known.url
        self.permanent = known.permanent
        self.lists_all = known.lists_all
        self._connection = connection
        self._connecting: asyncio.Task[asyncio.StreamWriter] | None = None
        self._receiving: asyncio.Task[None] | None = None
        self._numbers = itertools.count()
        self._waiting: dict[int, asyncio.Future[tuple[Answer, bytes]]] = {}
        self._ended = False

    async def find(self, path: str) -> Found:
        """See `Requests`."""
        answer, _ = await self._ask(Ask(next(self._numbers), "find", os.fsencode(path)))
        assert answer.found is not None
        return answer.found

    async def list(self, path: str) -> Listing:
        """See `Requests`."""
        answer, _ = await self._ask(Ask(next(self._numbers), "list", os.fsencode(path)))
        assert answer.listed is not None
        return listing_of(answer.listed)

    async def get(self, path: str, start: int, stop: int, of: Found) -> bytes:
        """See `Requests`."""
        ask = Ask(next(self._numbers), "get", os.fsencode(path), start, stop, of)
        _, data = await self._ask(ask)
        return data

    def close(self) -> None:
        """See `Requests`. The connection ends with the process, which others may still wait for."""

    async def _ask(self, ask: Ask) -> tuple[Answer, bytes]:
        if self._connecting is None:
            self._connecting = asyncio.ensure_future(self._connect())
        writer = await asyncio.shield(self._connecting)
        if self._ended:
            raise self._gone()
        waiting = self._waiting[ask.number] = asyncio.get_running_loop().create_future()
        try:
            writer.writelines(packed(ask))
            answer, data = await waiting
        except asyncio.CancelledError:
            if not self._ended:
                writer.writelines(packed(Ask(ask.number, "cancel")))
            raise
        finally:
            del self._waiting[ask.number]
        if answer.failure is not None:
            raise raised(answer.failure)
        return answer, data

    async def _connect(self) -> asyncio.StreamWriter:
        reader, writer = await asyncio.open_unix_connection(
            sock=self._connection, limit=_BUFFERED_BYTES
        )
        self._receiving = asyncio.ensure_future(self._receive(reader, writer))
        return writer

    async def _receive(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(EOFError, ConnectionError):  # what waits is told below
            while True:
                head, data = await read_message(reader)
                answer = msgspec.msgpack.decode(head, type=Answer)
                waiting = self._waiting.get(answer.number)
                if waiting is not None and not waiting.done():
                    waiting.set_result((answer, data))
        self._ended = True
        writer.close()
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(self._gone())

    def _gone(self) -> ZarrfuseError:
        return ZarrfuseError(f"{self.url}: the program that has this store has ended")
