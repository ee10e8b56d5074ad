"""What is secret in a source and its options is nowhere that other users or files can show it."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from builders.folders import files_below
from builders.http_server import serving_http
from builders.mounts import COMMAND, getfattr, status, zarrfuse
from builders.object_server import ObjectServer
from remote_dataset import write_core

SECRETS = (b"s3cret", b"Passw0rd", b"s1gned", b"dTpQYXNzdzByZA")
"""Of the options; the last is user and password as a header has them."""


def shown(point: Path, log: Path) -> Iterator[tuple[str, bytes]]:
    """(where, text) of everything that tells of a mount."""
    process = status(point)["pid"]
    for name in ("cmdline", "mountinfo", "comm"):
        yield name, Path(f"/proc/{process}/{name}").read_bytes()
    yield "mounts", Path("/proc/self/mountinfo").read_bytes()
    for file in (point / ".zarrfuse").rglob("*.json"):
        yield str(file), file.read_bytes()
    for path in (point, point / "plain", point / "plain/c/0/0"):
        yield f"info {path}", zarrfuse("info", path).stdout.encode()
        yield f"info --json {path}", zarrfuse("info", "--json", path).stdout.encode()
        yield f"xattrs {path}", str(getfattr(path)).encode()
    yield "log", log.read_bytes()


def assert_nothing_is_shown(point: Path, log: Path) -> None:
    for where, text in shown(point, log):
        for secret in SECRETS:
            assert secret not in text, (where, secret)


def mount(url: str, point: Path, log: Path, options: Sequence[str]) -> None:
    """With a Python of its own, whose command line is that of the daemon."""
    options = [*options, "--log-file", str(log), "-v", "--xattrs", "--timeout", "2"]
    done = zarrfuse("mount", url, point, *options, command=COMMAND)
    assert "s3cret" not in done.stdout + done.stderr


def test_of_a_url_and_its_headers(tmp_path: Path, mountpoint: Path) -> None:
    (tmp_path / "root").mkdir()
    write_core(tmp_path / "root/data")
    log = tmp_path / "log"
    with serving_http(tmp_path / "root", tmp_path / "own", "none") as server:
        host = server.url.removeprefix("http://")
        url = f"http://u:Passw0rd@{host}/data?X-Amz-Signature=s1gned"
        mount(url, mountpoint, log, ["--header", "Authorization: Bearer s3cret"])
        assert (mountpoint / "plain/c/0/0").read_bytes()
        assert not (mountpoint / "nothing").exists()
        assert all(one.path.endswith("X-Amz-Signature=s1gned") for one in server.asked())
        assert_nothing_is_shown(mountpoint, log)
        assert b"Passw0rd" not in zarrfuse("info", url).stdout.encode()
    with pytest.raises(OSError):  # which is logged
        (mountpoint / "plain/c/1/1").read_bytes()
    assert "plain/c/1/1" in log.read_text()
    assert_nothing_is_shown(mountpoint, log)


def test_of_settings_of_a_bucket(
    tmp_path: Path, mountpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY", raising=False)
    write_core(tmp_path / "data")
    log = tmp_path / "log"
    server = ObjectServer()
    try:
        bucket = server.bucket()
        for key, data in files_below(tmp_path / "data").items():
            bucket.put(f"data/{key}", data)
        options = ["-o", "aws_access_key_id=somebody,aws_secret_access_key=s3cret"]
        options += ["--endpoint-url", server.environment["AWS_ENDPOINT_URL"]]
        mount(f"{bucket.url}/data", mountpoint, log, options)
        assert (mountpoint / "plain/c/0/0").read_bytes()
        assert_nothing_is_shown(mountpoint, log)
    finally:
        server.stop()
    with pytest.raises(OSError):
        (mountpoint / "sharded/c/0/0").read_bytes()
    assert "sharded/c/0/0" in log.read_text()
    assert_nothing_is_shown(mountpoint, log)
