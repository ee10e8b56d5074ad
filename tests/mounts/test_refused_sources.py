"""A source on a server that cannot be mounted: one sentence names the server and what to set."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from builders.documents import group
from builders.folders import write_files
from builders.http_server import HttpServer, free_port, serving_http
from builders.mounts import zarrfuse
from builders.object_server import ObjectServer, TestBucket

from zarrfuse.mounts import kernel_mounts

METADATA = "169.254"
"""Where libraries ask for the credentials of a virtual machine."""
KEYS = ("-o", "aws_access_key_id=somebody,aws_secret_access_key=s3cret")


@pytest.fixture(autouse=True)
def without_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither variables nor ~/.aws say anything of servers."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def nginx(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    """A server with a group, and a folder that it refuses."""
    folder = tmp_path_factory.mktemp("nginx")
    write_files(folder / "root", {"data/zarr.json": group()})
    with serving_http(
        folder / "root", folder / "own", "none", "location /secret { return 403; }"
    ) as server:
        yield server


def refusal(mountpoint: Path, source: str, *options: str) -> str:
    """The one sentence with which a mount failed."""
    done = zarrfuse("mount", source, mountpoint, "--timeout", "2", *options, check=False)
    assert done.returncode == 1, done
    said = done.stderr.strip()
    assert said.startswith("zarrfuse: ") and "\n" not in said, said
    assert METADATA not in said and "s3cret" not in said, said
    assert kernel_mounts.mount_at(str(mountpoint)) is None
    return said


def endpoint(port: int) -> tuple[str, str]:
    """The options that name a server."""
    return "--endpoint-url", f"http://127.0.0.1:{port}"


def test_a_port_that_refuses_is_named(mountpoint: Path) -> None:
    port = free_port()
    said = refusal(mountpoint, f"http://u:s3cret@127.0.0.1:{port}/data?sig=s3cret")
    assert f"http://127.0.0.1:{port}/data" in said
    assert "cannot be reached" in said and "look at" in said


@pytest.mark.parametrize("source", ["s3://bucket/data", "s3://bucket/data.ozx"])
def test_an_endpoint_that_refuses_is_named(mountpoint: Path, source: str) -> None:
    port = free_port()
    said = refusal(mountpoint, source, *endpoint(port), *KEYS)
    assert source in said
    assert f"127.0.0.1:{port}" in said
    assert "--endpoint-url" in said


def test_an_endpoint_of_icechunk_that_refuses_is_named(mountpoint: Path) -> None:
    port = free_port()
    said = refusal(mountpoint, "icechunk+s3://bucket/data", *endpoint(port), *KEYS)
    assert "icechunk+s3://bucket/data" in said
    assert f"127.0.0.1:{port}" in said
    assert "--endpoint-url" in said


def test_a_bucket_that_is_missing_is_named(mountpoint: Path, object_server: ObjectServer) -> None:
    said = refusal(mountpoint, "s3://nothing/data", *endpoint(object_server.port), *KEYS)
    assert "s3://nothing/data" in said and "no bucket nothing" in said
    assert f"127.0.0.1:{object_server.port}" in said


def test_a_prefix_that_is_missing_is_named(mountpoint: Path, bucket: TestBucket) -> None:
    said = refusal(mountpoint, f"{bucket.url}/nothing", *endpoint(bucket.server.port), *KEYS)
    assert f"{bucket.url}/nothing" in said and "no keys below it" in said


def test_a_bucket_that_refuses_says_what_to_set(mountpoint: Path, bucket: TestBucket) -> None:
    bucket.put("a.zip", b"")  # this server lets everybody list, and nobody read
    where = endpoint(bucket.server.port)
    said = refusal(mountpoint, f"{bucket.url}/a.zip", *where, "--no-sign-request")
    assert f"{bucket.url}/a.zip" in said and where[1] in said and "AWS_ACCESS_KEY_ID" in said


def test_missing_credentials_say_what_to_set(mountpoint: Path, bucket: TestBucket) -> None:
    said = refusal(mountpoint, f"{bucket.url}/a", *endpoint(bucket.server.port))
    assert f"{bucket.url}/a" in said
    assert "AWS_ACCESS_KEY_ID" in said and "--no-sign-request" in said


def test_a_profile_that_is_missing_is_named(
    mountpoint: Path, bucket: TestBucket, tmp_path: Path
) -> None:
    write_files(tmp_path, {".aws/config": b"[profile other]\nregion = us-east-1\n"})
    said = refusal(
        mountpoint, f"{bucket.url}/a", *endpoint(bucket.server.port), "--profile", "nobody"
    )
    assert f"{bucket.url}/a" in said and "nobody" in said and "profile" in said


def test_writing_takes_the_same_options(mountpoint: Path, object_server: ObjectServer) -> None:
    where = endpoint(object_server.port)
    said = refusal(mountpoint, "s3://nothing/data", *where, *KEYS, "--read-write")
    assert where[1] in said and "no bucket nothing" in said


def test_a_setting_that_icechunk_lacks_is_named(mountpoint: Path) -> None:
    said = refusal(mountpoint, "icechunk+s3://bucket/data", "-o", "secret_key=s3cret")
    assert "has no setting secret_key" in said and "secret_access_key" in said


def test_a_profile_without_credentials_says_so(
    mountpoint: Path, bucket: TestBucket, tmp_path: Path
) -> None:
    write_files(tmp_path, {".aws/config": b"[profile other]\nregion = us-east-1\n"})
    said = refusal(
        mountpoint, f"{bucket.url}/a", *endpoint(bucket.server.port), "--profile", "other"
    )
    assert f"{bucket.url}/a" in said and "other" in said


@pytest.mark.parametrize("name", ["nothing", "nothing.ozx"])
def test_a_url_with_nothing_says_what_was_asked(
    mountpoint: Path, nginx: HttpServer, name: str
) -> None:
    said = refusal(mountpoint, f"{nginx.url}/{name}?sig=s3cret")
    assert f"{nginx.url}/{name}" in said
    assert "zarr.json" in said and ".zgroup" in said


def test_a_url_that_refuses_says_what_to_set(mountpoint: Path, nginx: HttpServer) -> None:
    said = refusal(mountpoint, f"{nginx.url}/secret", "--header", "Authorization: Bearer s3cret")
    assert f"{nginx.url}/secret" in said and "403" in said and "--header" in said
