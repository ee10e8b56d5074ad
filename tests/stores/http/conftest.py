"""A loop to run coroutines in, and stores behind nginx."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from builders.http_server import How, HttpServer, serving_http

from zarrfuse.stores.http.opening import http_requests
from zarrfuse.stores.http.requests import HttpRequests

Run = Callable[[Coroutine[Any, Any, Any]], Any]
Serve = Callable[..., HttpServer]
Open = Callable[..., HttpRequests]


@pytest.fixture
def run() -> Iterator[Run]:
    """Runs a coroutine, all of one test in one loop."""
    with asyncio.Runner() as runner:
        yield runner.run


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Starts nginx on the folder `served`; the parameters are those of `serving_http`."""
    root = tmp_path / "served"
    root.mkdir()
    with ExitStack() as stack:

        def start(how: How = "none", more: str = "") -> HttpServer:
            return stack.enter_context(serving_http(root, tmp_path / "nginx", how, more))

        yield start


@pytest.fixture
def served(serve: Serve, tmp_path: Path) -> Path:
    """The folder that `serve` serves."""
    return tmp_path / "served"


@pytest.fixture
def opened(run: Run) -> Iterator[Open]:
    """Opens a URL; closes what it opened."""
    with ExitStack() as stack:

        def open_url(url: str, **options: Any) -> HttpRequests:
            requests: HttpRequests = run(http_requests(url, **{"timeout_s": 5.0, **options}))
            stack.callback(requests.close)
            return requests

        yield open_url
