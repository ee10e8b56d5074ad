"""Connections: TLS, proxies, many at a time, and how they end."""

import asyncio
import datetime
import ipaddress
import os
import threading
import time
from pathlib import Path

import pytest
from builders.http_server import answering, free_port
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from zarrfuse.errors import NotSupported, ZarrfuseError
from zarrfuse.stores.http.client import Client
from zarrfuse.stores.http.objects import Objects
from zarrfuse.stores.http.url import HttpUrl
from zarrfuse.stores.remote.requests import TryAgain


def objects(url: str) -> Objects:
    return Objects(Client(HttpUrl.parse(url), {}))


def write_certificate(folder: Path) -> Path:
    """A certificate of 127.0.0.1, signed by itself, with its key in the same file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    now = datetime.datetime.now(datetime.UTC)
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    text = certificate.public_bytes(pem) + key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file = folder / "certificate.pem"
    file.write_bytes(text)
    return file


def test_tls_is_checked_and_no_redirect_leads_out_of_it(
    run, serve, served, tmp_path, monkeypatch
) -> None:
    (served / "a").write_bytes(b"12345")
    certificate, port = write_certificate(tmp_path), free_port()
    server = serve(
        more=f"listen 127.0.0.1:{port} ssl; ssl_certificate {certificate};"
        f" ssl_certificate_key {certificate};"
        " location /out { return 302 http://127.0.0.1/a; } location /in { return 302 /a; }"
    )
    url = f"https://127.0.0.1:{port}"
    distrusting = objects(url)
    with pytest.raises(ZarrfuseError, match="certificate"):
        run(distrusting.find("a"))
    distrusting.client.close()
    monkeypatch.setenv("SSL_CERT_FILE", os.fspath(certificate))
    store = objects(url)
    assert run(store.find("in")).size == 5
    with pytest.raises(NotSupported, match="redirects to http:"):
        run(store.find("out"))
    store.client.close()
    assert server.asked()


def test_a_proxy_of_the_environment_is_asked(run, monkeypatch) -> None:
    seen = []

    def answer(line: str, headers: dict[str, str]) -> bytes:
        seen.append(line)
        return b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\n123"

    with answering(answer) as proxy:
        monkeypatch.setenv("http_proxy", proxy)
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        store = objects("http://far.invalid/x")
        assert run(store.find("a")).size == 3
        store.client.close()
    assert seen == ["HEAD http://far.invalid/x/a HTTP/1.1"]


def test_many_requests_at_a_time_are_answered_on_few_connections(run, serve, served) -> None:
    data = {str(i): os.urandom(1000 + i) for i in range(100)}
    for name, content in data.items():
        (served / name).write_bytes(content)
    store = objects(serve().url)

    async def all_of_them() -> None:
        limit = asyncio.Semaphore(8)

        async def one(name: str) -> None:
            async with limit:
                found = await store.find(name)
                assert await store.get(name, 3, found.size, found) == data[name][3:]

        await asyncio.gather(*map(one, data))

    run(asyncio.sleep(0))  # the loop has descriptors, too
    before = len(os.listdir("/proc/self/fd"))
    run(all_of_them())
    assert len(os.listdir("/proc/self/fd")) <= before + 8
    store.client.close()


def test_it_is_closed_from_another_thread(serve, served) -> None:
    (served / "a").write_bytes(b"12345")
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    before = len(os.listdir("/proc/self/fd"))
    thread.start()
    store = objects(serve().url)
    try:
        asyncio.run_coroutine_threadsafe(store.find("a"), loop).result()
        opened = len(os.listdir("/proc/self/fd"))
        assert opened > before
        store.client.close()
        store.client.close()
        until = time.monotonic() + 10
        while len(os.listdir("/proc/self/fd")) != opened - 1:  # it does not wait for the loop
            assert time.monotonic() < until
            time.sleep(0.01)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def test_an_answer_that_stalls_is_worth_repeating(run) -> None:
    may_end = threading.Event()

    def answer(line: str, headers: dict[str, str]) -> bytes:
        may_end.wait(30)
        return b""

    with answering(answer) as url:
        store = Objects(Client(HttpUrl.parse(url), {}, stalls_s=0.2))
        try:
            with pytest.raises(TryAgain):
                run(asyncio.wait_for(store.find("a"), 20))
        finally:
            may_end.set()
            run(store.client._session.close())
