"""The proxy of the tests: each fault is what it is called, as often as told, the same by its seed."""

import http.client
import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from builders.fault_proxy import KINDS, FaultProxy, fault_proxy

DATA = bytes(range(256)) * 8
ETAG = '"right"'


class Serve(BaseHTTPRequestHandler):
    """One object, with ranges."""

    def do_GET(self) -> None:
        """A whole object, or a range of it."""
        start, stop = 0, len(DATA)
        if asked := self.headers["Range"]:
            first, last = asked.removeprefix("bytes=").split("-")
            start, stop = int(first), int(last) + 1
        self.send_response(206 if asked else 200)
        if asked:
            self.send_header("Content-Range", f"bytes {start}-{stop - 1}/{len(DATA)}")
        self.send_header("Content-Length", str(len(DATA[start:stop])))
        self.send_header("ETag", ETAG)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(DATA[start:stop])

    def do_HEAD(self) -> None:
        """The same without bytes."""
        self.do_GET()

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Serve)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def proxy(port: int) -> Iterator[FaultProxy]:
    with fault_proxy(port) as running:
        yield running


def ask(proxy: FaultProxy, method: str = "GET", target: str = "/", asked: str = "") -> tuple:
    """The status, headers and body of one answer."""
    connection = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=20)
    try:
        connection.request(method, target, headers={"Range": asked} if asked else {})
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()
    finally:
        connection.close()


def outcome(proxy: FaultProxy, asked: str = "bytes=32-1055") -> str:
    """In which way the answer to a range is wrong."""
    try:
        status, headers, body = ask(proxy, asked=asked)
    except http.client.IncompleteRead as error:
        return "longer" if error.partial == DATA[32:1056] else "cut"
    except http.client.RemoteDisconnected:
        return "no answer"
    except ConnectionResetError:
        return "reset"
    if status != 206:
        return f"{status} {'Retry-After' in headers}"
    if headers["ETag"] != ETAG:
        return "etag"
    if body != DATA[32:1056]:
        same_range = headers["Content-Range"].startswith("bytes 32-1055/")
        return "shorter" if same_range else "shifted"
    return "right"


def test_without_faults_everything_is_passed_on(proxy: FaultProxy):
    assert ask(proxy)[2] == DATA
    assert ask(proxy, "HEAD")[1]["Content-Length"] == str(len(DATA))
    assert outcome(proxy) == "right"
    assert [one.method for one in proxy.asked()] == ["GET", "HEAD", "GET"]
    assert proxy.asked()[2].range == "bytes=32-1055"
    assert not proxy.faults()


def test_requests_use_one_connection_after_another(proxy: FaultProxy):
    connection = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=20)
    for method in ("GET", "HEAD", "GET"):
        connection.request(method, "/")
        assert connection.getresponse().read() == (DATA if method == "GET" else b"")
    connection.close()
    assert proxy.most_at_once() == 1


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("latency", {"right"}),
        ("slow", {"right"}),
        ("cut", {"cut"}),
        ("stall", {"cut", "no answer"}),
        ("wrong_length", {"longer", "shorter", "shifted"}),
        ("etag", {"etag"}),
        ("refuse", {"reset"}),
        ("burst", {f"{code} {after}" for code in (429, 500, 503) for after in (True, False)}),
    ],
)
def test_each_kind_does_what_it_is_called(proxy: FaultProxy, kind: str, expected: set[str]):
    proxy.set(rate=1, kinds=[kind], latency_s=0.001, stall_s=0.01, slow_s=0)
    assert {outcome(proxy) for _ in range(40)} == expected
    assert proxy.faults() == {kind: 40}


def test_a_stall_ends_when_the_client_goes_away(proxy: FaultProxy):
    proxy.set(rate=1, kinds=["stall"], stall_s=3600)
    connection = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=0.1)
    connection.request("GET", "/")
    with pytest.raises(TimeoutError):
        connection.getresponse().read()
    connection.close()
    proxy.set()
    assert ask(proxy)[2] == DATA


def test_the_rate_is_kept_with_all_kinds_and_the_same_by_the_seed(proxy: FaultProxy):
    faults = []
    for _ in range(2):
        before = len(proxy.asked())
        proxy.set(rate=0.2, seed=5, latency_s=0, stall_s=0, slow_s=0)
        outcomes = Counter(outcome(proxy) for _ in range(400))
        assert outcomes["right"] > 200
        faults.append([one.fault for one in proxy.asked()[before:]])
    assert faults[0] == faults[1]
    made = Counter(faults[0])
    assert set(made) == {None, *KINDS}
    assert 40 <= 400 - made[None] <= 120  # 80, by chance


def test_only_some_paths_fail_and_only_so_often(proxy: FaultProxy):
    proxy.set(rate=1, kinds=["burst"], path="bad", limit=2)
    assert [
        ask(proxy, target=target)[0] == 200 for target in ("/good", "/bad", "/bad", "/bad")
    ] == [
        True,
        False,
        False,
        True,
    ]


def test_hanging_up_closes_connections_and_takes_new_ones(proxy: FaultProxy):
    connection = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=20)
    connection.request("GET", "/")
    assert connection.getresponse().read() == DATA
    proxy.hang_up()
    assert connection.sock.recv(1) == b""
    connection.close()
    assert ask(proxy)[2] == DATA


def test_a_stopped_proxy_refuses_connections(port: int):
    with fault_proxy(port) as proxy:
        pass
    with pytest.raises(ConnectionRefusedError):
        ask(proxy)
