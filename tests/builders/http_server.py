"""An HTTP server for tests: nginx, in a process of its own, that serves one folder.

And a server that answers with bytes that a test gives, for answers that nginx never sends.
"""

import http.client
import shutil
import socket
import socketserver
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, NamedTuple

NGINX = shutil.which("nginx") or "/usr/sbin/nginx"

How = Literal["none", "html", "webdav"]

_LISTING: dict[str, str] = {
    "none": "",
    "html": "autoindex on;",
    "webdav": "dav_ext_methods PROPFIND OPTIONS;",
}
_CONFIGURATION = """
{modules}
daemon off;
master_process off;
pid {own}/nginx.pid;
error_log {own}/error.log;
events {{ worker_connections 512; }}
http {{
    log_format request '$request_method $request_uri $status $http_range';
    access_log {own}/access.log request;
    default_type application/octet-stream;
    client_body_temp_path {own}/body;
    proxy_temp_path {own}/proxy;
    fastcgi_temp_path {own}/fastcgi;
    uwsgi_temp_path {own}/uwsgi;
    scgi_temp_path {own}/scgi;
    server {{
        listen 127.0.0.1:{port};
        root {root};
        keepalive_requests 100000;
        {listing}
        {more}
    }}
}}
"""


class Asked(NamedTuple):
    """One request in the log."""

    method: str
    path: str
    status: int
    range: str


class HttpServer:
    """A running nginx. `more`: further lines of its configuration."""

    def __init__(self, root: Path, own: Path, how: How = "none", more: str = "") -> None:
        self.root, self._own = root, own
        self._how, self._more = how, more
        own.mkdir(parents=True, exist_ok=True)
        for _ in range(5):  # another process may take the port before nginx does
            self.port = free_port()
            self._process = self._started()
            if self._answers():
                break
        else:
            raise AssertionError((own / "error.log").read_text())
        self.url = f"http://127.0.0.1:{self.port}"

    def _started(self) -> "subprocess.Popen[bytes]":
        module = "/usr/lib/nginx/modules/ngx_http_dav_ext_module.so"
        configuration = self._own / "nginx.conf"
        configuration.write_text(
            _CONFIGURATION.format(
                modules=f"load_module {module};" if self._how == "webdav" else "",
                own=self._own,
                port=self.port,
                root=self.root,
                listing=_LISTING[self._how],
                more=self._more,
            )
        )
        # It ends with the process that started it.
        nginx = [NGINX, "-e", self._own / "error.log", "-p", self._own, "-c", configuration]
        return subprocess.Popen(
            ["setpriv", "--pdeathsig", "TERM", *nginx], stderr=subprocess.DEVNULL
        )

    def _answers(self) -> bool:
        while self._process.poll() is None:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return True
            time.sleep(0.005)
        return False

    def asked(self) -> list[Asked]:
        """The requests since the last call."""
        # nginx has one process here: when it answers, it has logged all answers before.
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        connection.request("GET", "/.marker")
        connection.getresponse().read()
        connection.close()
        log = self._own / "access.log"
        lines = log.read_text().splitlines()
        log.write_text("")  # nginx appends
        found = [Asked(m, p, int(s), r) for m, p, s, r in (line.split(" ", 3) for line in lines)]
        return [one for one in found if one.path != "/.marker"]

    def stop(self) -> None:
        """End it; from then on connections are refused."""
        self._process.terminate()
        self._process.wait()


@contextmanager
def serving_http(root: Path, own: Path, how: How = "none", more: str = "") -> Iterator[HttpServer]:
    """nginx that serves `root` for the block; `own`: a folder for its files, not below `root`."""
    server = HttpServer(root, own, how, more)
    try:
        yield server
    finally:
        server.stop()


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def answering(answer: Callable[[str, dict[str, str]], bytes]) -> Iterator[str]:
    """The URL of a server that closes each connection after `answer(request line, headers)`.

    The body is left out for HEAD.
    """

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            line = self.rfile.readline().decode().strip()
            headers = {}
            while text := self.rfile.readline().decode().strip():
                name, _, value = text.partition(":")
                headers[name.lower()] = value.strip()
            if line:
                whole = answer(line, headers)
                is_head = line.startswith("HEAD ")
                self.wfile.write(
                    whole.partition(b"\r\n\r\n")[0] + b"\r\n\r\n" if is_head else whole
                )

    class Server(socketserver.ThreadingTCPServer):
        allow_reuse_address = True
        daemon_threads = True

    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
