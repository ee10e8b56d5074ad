"""`open_store` of what cannot be opened raises what users of `fsspec` and zarr-python expect."""

import os
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

import zarrfuse

_OF_CLOUDS = ("AWS_", "AZURE_", "GOOGLE_")


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(_OF_CLOUDS)]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", "/nonexistent")
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")


@pytest.fixture
def refusing() -> Iterator[str]:
    """The URL of a server that answers every request with 403."""

    class Refuse(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(403)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_PUT = do_GET  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Refuse) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize(
    "url", ["foo://bucket/x.zarr", "ftp://host/x.zarr", "s3://", "az://c/x.zarr"]
)
def test_a_url_that_can_be_no_source_is_a_value_error(url: str) -> None:
    with pytest.raises(ValueError, match=url):
        zarrfuse.open_store(url)


def test_missing_credentials_are_a_permission_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as unheard:  # bound and not listening: where no cloud is, nobody answers
        unheard.bind(("127.0.0.1", 0))
        port = unheard.getsockname()[1]
        monkeypatch.setenv("AWS_METADATA_ENDPOINT", f"http://127.0.0.1:{port}")
        with pytest.raises(PermissionError, match=r"s3://bucket/x\.zarr .*AWS_ACCESS_KEY_ID"):
            zarrfuse.open_store("s3://bucket/x.zarr")


def test_credentials_that_are_refused_are_a_permission_error(
    refusing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {
        "AWS_ENDPOINT_URL": refusing,
        "AWS_ACCESS_KEY_ID": "wrong",
        "AWS_SECRET_ACCESS_KEY": "wrong",
        "AWS_REGION": "us-east-1",
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(PermissionError, match=r"s3://bucket/x\.zarr at \S+ may not be listed"):
        zarrfuse.open_store("s3://bucket/x.zarr")
