"""An S3 server for tests: moto, in a process of its own, and what others do to its buckets.

Not in the process of the tests: a test that touches mapped memory of a mount holds the interpreter while
the daemon asks the server. Started as a script it serves until its standard input ends, so that it never
outlives who started it.
"""

import http.client
import itertools
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from urllib.parse import quote, unquote

import pytest

from zarrfuse.config import RemoteConfig
from zarrfuse.stores.object.opening import open_bucket
from zarrfuse.stores.object.store import ObjectStore
from zarrfuse.stores.remote.store import RemoteStore

PAGE = 100
"""Keys in one answer to a listing; real servers give a thousand."""


class ObjectServer:
    """A running server. `environment` is what a process needs to use it."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__],
            env={**os.environ, "MOTO_S3_DEFAULT_MAX_KEYS": str(PAGE)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())
        self.environment = environment_for(self.port)
        self._numbers = itertools.count(1)

    def bucket(self) -> "TestBucket":
        """A new, empty bucket."""
        bucket = TestBucket(self, f"bucket-{next(self._numbers)}")
        bucket.ask("PUT")
        return bucket

    def freeze(self) -> None:
        """From now on connections are taken and nothing is answered."""
        self._process.send_signal(signal.SIGSTOP)

    def stop(self) -> None:
        """End it; from then on connections are refused."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.send_signal(signal.SIGCONT)
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


class TestBucket:
    """A bucket as others change it: every key exactly as given, also those that are no paths."""

    __test__ = False

    def __init__(self, server: ObjectServer, name: str) -> None:
        self.server = server
        self.name = name
        self.url = f"s3://{name}"

    def store(self, prefix: str = "", **options) -> ObjectStore:
        """A store of ours on it."""
        with set_environment(self.server.environment):
            return ObjectStore(f"{self.url}/{prefix}", **{"writable": True, **options})

    def cached_store(self, prefix: str = "", **options) -> RemoteStore:
        """A store of ours that only reads it; `options`: of `RemoteConfig`."""
        with set_environment(self.server.environment):
            return open_bucket(f"{self.url}/{prefix}", RemoteConfig(**options))

    def put(self, key: str, data: bytes) -> None:
        self.ask("PUT", key, data)

    def get(self, key: str) -> bytes:
        return self.ask("GET", key)

    def delete(self, key: str) -> None:
        self.ask("DELETE", key)

    def all_keys(self) -> list[str]:
        """All keys, sorted; of ten thousand at most."""
        listed = self.ask("GET", query="?list-type=2&encoding-type=url&max-keys=10000").decode()
        return sorted(unquote(key) for key in re.findall("<Key>([^<]*)</Key>", listed))

    def ask(
        self,
        method: str,
        key: str = "",
        body: bytes | None = None,
        query: str = "",
        headers: Mapping[str, str] = MappingProxyType({}),
    ) -> bytes:
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=30)
        try:
            path = f"/{self.name}/{quote(key, safe='/')}{query}"
            signed = {"Authorization": "AWS others:signature", **headers}
            connection.request(method, path, body, signed)
            answer = connection.getresponse()
            said = answer.read()
        finally:
            connection.close()
        assert answer.status < 300, (method, key, answer.status, said)
        return said


def environment_for(port: int) -> dict[str, str]:
    """What a process has to be told of an S3 server on this machine."""
    return {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": "somebody",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_REGION": "us-east-1",
        "NO_PROXY": "127.0.0.1",
    }


@contextmanager
def set_environment(variables: dict[str, str]) -> Iterator[None]:
    """These variables, for as long as the block lasts: a store reads them when it is opened."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        yield


@pytest.fixture(scope="session")
def object_server() -> Iterator[ObjectServer]:
    """The server that all tests share. Each takes buckets of its own."""
    server = ObjectServer()
    yield server
    server.stop()


@pytest.fixture
def bucket(object_server: ObjectServer) -> TestBucket:
    """A new bucket."""
    return object_server.bucket()


def _serve() -> None:
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    app = DomainDispatcherApplication(create_backend_app)
    one_at_a_time = threading.Lock()

    def application(environ, start_response):
        with one_at_a_time:  # moto looks at a condition first and stores then
            return [b"".join(app(environ, start_response))]

    server = make_server("127.0.0.1", 0, application, threaded=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.port, flush=True)
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    _serve()
