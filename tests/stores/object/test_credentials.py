"""Where credentials come from, and what becomes of those that expire."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from zarrfuse.config import RemoteConfig
from zarrfuse.errors import Denied, SourceDenied, SourceError, UnusableSource
from zarrfuse.stores.base import read
from zarrfuse.stores.object.opening import open_bucket

LISTED = (
    "<ListBucketResult><Name>bucket</Name><KeyCount>1</KeyCount><IsTruncated>false</IsTruncated>"
    "<Contents><Key>a.zarr/{name}</Key><LastModified>2024-05-17T12:34:56.000Z</LastModified>"
    '<ETag>"tag"</ETag><Size>2</Size></Contents></ListBucketResult>'
)
EXPIRED = (
    "<Error><Code>ExpiredToken</Code><Message>The provided token has expired.</Message></Error>"
)
TOKEN = "x-amz-security-token"


class Server:
    """A bucket of one object for who has one of the `valid` tokens; others are told that theirs expired."""

    def __init__(self) -> None:
        self.valid = {"first"}
        self.tokens: list[str] = []
        self.headers: list[dict[str, str]] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                token = self.headers.get(TOKEN, "")
                server.tokens.append(token)
                server.headers.append({k.lower(): v for k, v in self.headers.items()})
                if token not in server.valid:
                    self.answer(400, EXPIRED.encode())
                elif "list-type" in self.path:
                    self.answer(200, LISTED.format(name="zarr.json").encode())
                else:
                    self.answer(200, b"{}")

            do_HEAD = do_GET  # noqa: N815  # as the class above calls it

            def answer(self, code: int, body: bytes) -> None:
                if "Range" in self.headers and code == 200:
                    code = 206
                self.send_response(code)
                self.send_header("Content-Length", str(len(body)))
                self.send_header("Content-Range", f"bytes 0-{len(body) - 1}/{len(body)}")
                self.send_header("ETag", '"tag"')
                self.send_header("Last-Modified", "Fri, 17 May 2024 12:34:56 GMT")
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                return

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"
        threading.Thread(target=self._http.serve_forever, daemon=True).start()

    def stop(self) -> None:
        self._http.shutdown()
        self._http.server_close()


@pytest.fixture
def server() -> Iterator[Server]:
    running = Server()
    yield running
    running.stop()


@pytest.fixture(autouse=True)
def credentials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The `~/.aws/credentials` of the test; nothing is in the environment."""
    for name in (
        "ACCESS_KEY_ID",
        "SECRET_ACCESS_KEY",
        "SESSION_TOKEN",
        "PROFILE",
        "SKIP_SIGNATURE",
    ):
        monkeypatch.delenv(f"AWS_{name}", raising=False)
    path = tmp_path / "credentials"
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(path))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    return path


def write(path: Path, profile: str, token: str) -> None:
    path.write_text(
        f"[{profile}]\naws_access_key_id = somebody\naws_secret_access_key = secret\n"
        f"aws_session_token = {token}\n"
    )


def config(server: Server, **members: object) -> RemoteConfig:
    settings = (("endpoint", server.url), ("region", "us-east-1"))
    return RemoteConfig(settings=settings, timeout_s=5.0, **members)  # type: ignore[arg-type]


def test_a_profile_is_read(server: Server, credentials: Path) -> None:
    write(credentials, "lab", "first")
    store = open_bucket("s3://bucket/a.zarr", config(server, profile="lab"))
    assert read(store, "zarr.json") == b"{}"
    assert set(server.tokens) == {"first"}


def test_the_default_profile_is_read_without_being_named(server: Server, credentials: Path) -> None:
    write(credentials, "default", "first")
    assert read(open_bucket("s3://bucket/a.zarr", config(server)), "zarr.json") == b"{}"


def test_a_profile_of_the_environment_is_read(
    server: Server, credentials: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(credentials, "lab", "first")
    monkeypatch.setenv("AWS_PROFILE", "lab")
    assert read(open_bucket("s3://bucket/a.zarr", config(server)), "zarr.json") == b"{}"


def test_expired_credentials_are_fetched_anew(server: Server, credentials: Path) -> None:
    write(credentials, "lab", "first")
    store = open_bucket("s3://bucket/a.zarr", config(server, profile="lab"))
    server.valid = {"second"}
    write(credentials, "lab", "second")
    assert read(store, "zarr.json") == b"{}"
    assert server.tokens[-1] == "second"


def test_credentials_that_stay_expired_are_denied(server: Server, credentials: Path) -> None:
    write(credentials, "lab", "first")
    store = open_bucket("s3://bucket/a.zarr", config(server, profile="lab"))
    server.valid = set()
    with pytest.raises(Denied, match="ExpiredToken"):
        read(store, "zarr.json")
    with pytest.raises(SourceDenied, match=r"s3://bucket/a\.zarr at http://\S+ may not be listed"):
        open_bucket("s3://bucket/a.zarr", config(server, profile="lab"))


def test_a_profile_that_is_not_there_is_named(server: Server, credentials: Path) -> None:
    write(credentials, "lab", "first")
    with pytest.raises(UnusableSource, match="the profile other cannot be used"):
        open_bucket("s3://bucket/a.zarr", config(server, profile="other"))


def test_headers_are_sent_to_buckets_too(server: Server, credentials: Path) -> None:
    write(credentials, "default", "first")
    open_bucket("s3://bucket/a.zarr", config(server, headers=(("X-Project", "mouse"),)))
    assert server.headers[-1]["x-project"] == "mouse"


@pytest.mark.parametrize("name", ["no_such_setting", "aws_no_such"])
def test_a_setting_that_is_none_is_named(server: Server, name: str) -> None:
    asked = RemoteConfig(settings=(("endpoint", server.url), (name, "x")), timeout_s=5.0)
    with pytest.raises(SourceError, match=name):
        open_bucket("s3://bucket/a.zarr", asked)
