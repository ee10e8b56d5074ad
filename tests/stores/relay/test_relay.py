"""A store in another process answers as the store itself does, and raises what it raises."""

import asyncio
import errno
import socket
import threading
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from builders.zarr_stores import memory

from zarrfuse import errors
from zarrfuse.errors import NotFound, ZarrfuseError
from zarrfuse.stores.relay.answering import Answering
from zarrfuse.stores.relay.requests import Relayed, RelayedRequests
from zarrfuse.stores.remote.requests import Found, Listing, TryAgain
from zarrfuse.stores.zarr_store.requests import ZarrRequests

RAW_NAME = "latin1-\udce9.tif"
KEYS = {"zarr.json": b"{}", "a/c/0": bytes(range(256)) * 20_000, "a/empty": b""}


class Fake:
    """Requests whose answers a test gives."""

    url = "test://fake"
    permanent = True
    lists_all = False

    def __init__(self) -> None:
        self.answer: Callable[[], Any] = lambda: Found(1, 0, None)
        self.begun = threading.Event()
        self.cancelled = threading.Event()
        self.waits = False
        self.asked: list[tuple] = []

    async def _answered(self, *asked) -> Any:
        self.asked.append(asked)
        self.begun.set()
        if self.waits:
            try:
                await asyncio.sleep(1000)
            except asyncio.CancelledError:
                self.cancelled.set()
                raise
        return self.answer()

    async def find(self, path: str) -> Found:
        return await self._answered("find", path)

    async def list(self, path: str) -> Listing:
        return await self._answered("list", path)

    async def get(self, path: str, start: int, stop: int, of: Found) -> bytes:
        return await self._answered("get", path, start, stop, of)

    def close(self) -> None:
        self.asked.append(("close",))


class Relay:
    """Both ends, in one process."""

    def __init__(self, requests) -> None:
        ours, self.theirs = socket.socketpair()
        self.answering = Answering(requests, ours)
        known = Relayed(requests.url, requests.permanent, requests.lists_all)
        self.requests = RelayedRequests(self.theirs, known)

    def run(self, ask: Callable[[RelayedRequests], Coroutine[Any, Any, Any]]) -> Any:
        return asyncio.run(asyncio.wait_for(ask(self.requests), 60))


@pytest.fixture
def fake() -> Fake:
    return Fake()


@pytest.fixture
def relay(fake: Fake) -> Iterator[Relay]:
    relay = Relay(fake)
    yield relay
    relay.answering.stop()
    relay.theirs.close()


def test_what_is_known_of_the_store_is_said_at_once(relay: Relay) -> None:
    known = relay.requests.url, relay.requests.permanent, relay.requests.lists_all
    assert known == ("test://fake", True, False)


def test_a_store_is_read_through_the_relay(tmp_path: Path) -> None:
    relay = Relay(ZarrRequests(memory(KEYS, tmp_path), "test://store"))

    async def ask(requests: RelayedRequests) -> None:
        of = await requests.find("a/c/0")
        assert of == Found(len(KEYS["a/c/0"]), 0, None)
        assert await requests.get("a/c/0", 0, of.size, of) == KEYS["a/c/0"]
        assert await requests.get("a/c/0", 3, 10, of) == KEYS["a/c/0"][3:10]
        assert await requests.list("") == Listing({"zarr.json": Found(2, 0, None)}, ["a"])
        with pytest.raises(NotFound, match="no key nothing"):
            await requests.find("nothing")

    relay.run(ask)
    relay.answering.stop()


def test_requests_are_answered_at_the_same_time(tmp_path: Path) -> None:
    keys = {f"{number}": bytes([number]) * (1000 * number) for number in range(100)}
    relay = Relay(ZarrRequests(memory(keys, tmp_path), "test://store"))

    async def ask(requests: RelayedRequests) -> list[bytes]:
        async def read(key: str) -> bytes:
            of = await requests.find(key)
            return await requests.get(key, 0, of.size, of)

        return await asyncio.gather(*map(read, keys))

    assert relay.run(ask) == [*keys.values()]
    relay.answering.stop()


def test_names_need_not_be_utf8(relay: Relay, fake: Fake) -> None:
    listing = Listing({RAW_NAME: None, "b": Found(3, 5, "v")}, ["größe", RAW_NAME], False)
    fake.answer = lambda: listing
    got = relay.run(lambda requests: requests.list(RAW_NAME))
    assert got == listing
    assert not got.lacks("whatever")
    assert fake.asked == [("list", RAW_NAME)]


@pytest.mark.parametrize(
    "error",
    [
        *(
            kind("what went wrong")
            for kind in vars(errors).values()
            if isinstance(kind, type) and issubclass(kind, ZarrfuseError)
        ),
        TryAgain("busy", 2.5),
        TryAgain("lost"),
        OSError(errno.EMFILE, "Too many open files"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_exception_crosses_with_its_class_and_message(
    relay: Relay, fake: Fake, error: Exception
) -> None:
    def fail() -> None:
        raise error

    fake.answer = fail
    with pytest.raises(type(error)) as caught:
        relay.run(lambda requests: requests.find("key"))
    assert type(caught.value) is type(error)
    assert str(caught.value) == str(error)
    if isinstance(error, TryAgain):
        assert caught.value.retry_after_s == error.retry_after_s


def test_any_other_exception_is_an_error_of_the_store(relay: Relay, fake: Fake) -> None:
    fake.answer = lambda: 1 // 0
    with pytest.raises(ZarrfuseError, match="ZeroDivisionError: integer"):
        relay.run(lambda requests: requests.find("key"))


def test_a_request_that_nobody_waits_for_is_cancelled_in_the_other_process(
    relay: Relay, fake: Fake
) -> None:
    fake.waits = True

    async def ask(requests: RelayedRequests) -> None:
        task = asyncio.ensure_future(requests.find("key"))
        await asyncio.to_thread(fake.begun.wait, 30)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(fake.cancelled.wait, 30)
        fake.waits = False
        assert await requests.find("another") == Found(1, 0, None)

    relay.run(ask)


def test_when_the_other_process_ends_requests_fail(relay: Relay, fake: Fake) -> None:
    fake.waits = True

    async def ask(requests: RelayedRequests) -> None:
        task = asyncio.ensure_future(requests.find("key"))
        await asyncio.to_thread(fake.begun.wait, 30)
        await asyncio.to_thread(relay.answering.stop)
        for asked in (task, requests.list("")):
            with pytest.raises(ZarrfuseError, match=r"test://fake: the program .* has ended"):
                await asked

    relay.run(ask)
    assert fake.asked[-1] == ("close",)


def test_when_the_daemon_ends_the_thread_ends(fake: Fake) -> None:
    before = set(threading.enumerate())
    relay = Relay(fake)
    [thread] = set(threading.enumerate()) - before
    relay.theirs.close()
    thread.join(30)
    assert not thread.is_alive()
    relay.answering.stop()
