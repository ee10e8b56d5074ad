"""Documents are asked for once by all who need them, and nobody waits for a request that has stalled."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from builders.documents import array
from builders.http_server import answering

from zarrfuse.stores.http.client import Client
from zarrfuse.stores.http.objects import Objects
from zarrfuse.stores.http.url import HttpUrl
from zarrfuse.stores.remote.requests import TryAgain
from zarrfuse.stores.unlisted.documents import NodeDocuments


class Gate:
    """A server of one array that answers its first request for `zarr.json` when it is opened."""

    def __init__(self) -> None:
        self.asked = 0
        self.open = threading.Event()

    def answer(self, line: str, headers: dict[str, str]) -> bytes:
        start = "HTTP/1.1 404 Not Found\r\nConnection: close\r\nContent-Length: "
        if "/zarr.json" not in line:
            return f"{start}0\r\n\r\n".encode()
        self.asked += 1
        if self.asked == 1:
            self.open.wait(30)
        body = array()
        return start.replace("404 Not Found", "200 OK").encode() + b"%d\r\n\r\n%s" % (
            len(body),
            body,
        )


@pytest.fixture
def gated() -> Iterator[Callable[..., object]]:
    @contextmanager
    def make(**options: float) -> Iterator[tuple[NodeDocuments, Gate]]:
        gate = Gate()
        with answering(gate.answer) as url:
            client = Client(HttpUrl.parse(url), {})
            yield NodeDocuments(Objects(client), **{"kept_s": 60, "limit_s": 30, **options}), gate
            gate.open.set()
            client.close()

    return make


async def until(condition: Callable[[], object]) -> None:
    while not condition():
        await asyncio.sleep(0.001)


def test_all_who_ask_at_once_share_the_requests_and_one_who_leaves_ends_none(run, gated) -> None:
    async def many(documents: NodeDocuments, gate: Gate) -> None:
        tasks = [asyncio.create_task(documents.way("c/0")) for _ in range(5)]
        await until(lambda: gate.asked)
        tasks[0].cancel()
        await asyncio.sleep(0)
        gate.open.set()
        for task in tasks[1:]:
            [step] = await task
            assert step.known.array is not None
        assert tasks[0].cancelled()

    with gated() as (documents, gate):
        run(many(documents, gate))
        run(documents.way(""))
        assert gate.asked == 1


def test_who_asks_later_does_not_wait_for_a_stalled_request(run, gated) -> None:
    async def later(documents: NodeDocuments, gate: Gate) -> None:
        stalled = asyncio.create_task(documents.way(""))
        await until(lambda: gate.asked)
        [step] = await documents.way("")
        assert step.known.array is not None and not stalled.done()
        gate.open.set()
        await stalled

    with gated(shared_s=0) as (documents, gate):
        run(later(documents, gate))
        assert gate.asked == 2


def test_documents_that_do_not_arrive_may_be_asked_for_again(run, gated) -> None:
    with gated(limit_s=0.2) as (documents, _):
        with pytest.raises(TryAgain, match=r"0\.2 s"):
            run(documents.way(""))
        [step] = run(documents.way(""))
        assert step.known.array is not None
