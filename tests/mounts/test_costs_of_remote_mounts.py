"""What a mount asks its server for, and what it keeps: in memory, on the disk, and not at all."""

import errno
import os
import random
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from builders.documents import array, group
from builders.folders import write_files
from builders.http_server import HttpServer, serving_http
from builders.mounts import mounting, status, wait_for
from builders.object_server import TestBucket

COUNT = 10_000
LARGE = 6 << 20
SMALL = {f"small/c/{n}": random.Random(n).randbytes(3000) for n in range(20)}
Replace = Callable[[bytes], None]


@pytest.fixture(scope="module")
def nginx(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    """A server that lists nothing: 10,000 chunks of which one is stored, and 20 small ones."""
    folder = tmp_path_factory.mktemp("nginx")
    files = {
        "many/zarr.json": array([COUNT], [1]),
        "many/c/7": b"7",
        "small/zarr.json": array([3000 * len(SMALL)], [3000]),
    }
    write_files(folder / "root", {"zarr.json": group(), **files, **SMALL})
    with serving_http(folder / "root", folder / "own", "none") as server:
        yield server


def test_a_folder_of_10_000_chunks_is_listed_without_a_request_for_each(
    nginx: HttpServer, tmp_path: Path
) -> None:
    with mounting(f"{nginx.url}/many", tmp_path / "mnt") as point:
        nginx.asked()
        listed = subprocess.run(["ls", "-f", point / "c"], check=True, capture_output=True)
        names = listed.stdout.decode().split()
        assert [name for name in names if not name.startswith(".")] == [
            str(number) for number in range(COUNT)
        ]
        assert len(nginx.asked()) <= 10
        assert (point / "c/7").read_bytes() == b"7"
        assert 1 <= len(nginx.asked()) <= 10
        assert not (point / "c/8").exists()


def test_a_second_mount_reads_from_the_disk(nginx: HttpServer, tmp_path: Path) -> None:
    options = ("--cache-dir", str(tmp_path / "cache"))
    nginx.asked()
    asked = []
    for name in ("first", "second"):
        with mounting(nginx.url, tmp_path / name, *options) as point:
            assert read_small(point) == SMALL
            wait_for(lambda point=point: status(point)["disk"]["bytes"] >= 3000 * len(SMALL))
            hits = status(point)["disk"]["hits"]
        asked.append(nginx.asked())
        assert (hits >= len(SMALL)) is (name == "second")
    assert len(asked[1]) < len(asked[0])
    assert not [one for one in asked[1] if one.method == "GET" and "/small/c/" in one.path]
    kept = [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]
    assert kept and {path.stat().st_mode & 0o777 for path in kept} == {0o600}


def test_two_mounts_share_a_folder_of_blocks(nginx: HttpServer, tmp_path: Path) -> None:
    options = ("--cache-dir", str(tmp_path / "cache"), "--cache-size", "0")
    with (
        mounting(nginx.url, tmp_path / "first", *options) as first,
        mounting(nginx.url, tmp_path / "second", *options) as second,
    ):
        nginx.asked()
        assert read_small(first) == SMALL
        wait_for(lambda: status(first)["disk"]["bytes"] >= 3000 * len(SMALL))
        nginx.asked()
        assert read_small(second) == SMALL
        assert status(second)["disk"]["hits"] >= len(SMALL)
        assert not [one for one in nginx.asked() if one.method == "GET" and "/c/" in one.path]


def read_small(point: Path) -> dict[str, bytes]:
    return {key: (point / key).read_bytes() for key in SMALL}


def changing(before: bytes, after: bytes, point: Path, replace: Replace) -> None:
    """An object that is replaced while it is open is never read mixed."""
    file = os.open(point / "c/0", os.O_RDONLY | os.O_DIRECT)
    try:
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)
        assert os.pread(file, 4096, 0) == before[:4096]
        replace(after)
        with pytest.raises(OSError) as raised:
            os.pread(file, 4096, LARGE - 4096)
        assert raised.value.errno == errno.ESTALE
        assert os.pread(file, 4096, 0) == before[:4096]
    finally:
        os.close(file)
    assert (point / "c/0").read_bytes() == after


@pytest.fixture
def versions() -> tuple[bytes, bytes]:
    return random.Random(1).randbytes(LARGE), random.Random(2).randbytes(LARGE)


def test_a_file_that_changes_on_a_server_while_it_is_open_is_stale(
    tmp_path: Path, versions: tuple[bytes, bytes]
) -> None:
    root = tmp_path / "root"
    write_files(root, {"zarr.json": array([LARGE], [LARGE]), "c/0": versions[0]})
    os.utime(root / "c/0", (1_600_000_000, 1_600_000_000))

    def replace(data: bytes) -> None:
        (root / "new").write_bytes(data)
        (root / "new").rename(root / "c/0")

    with (
        serving_http(root, tmp_path / "own", "none") as server,
        mounting(server.url, tmp_path / "mnt") as point,
    ):
        changing(*versions, point, replace)


def test_an_object_that_changes_in_a_bucket_while_it_is_open_is_stale(
    tmp_path: Path, versions: tuple[bytes, bytes], bucket: TestBucket
) -> None:
    bucket.put("zarr.json", array([LARGE], [LARGE]))
    bucket.put("c/0", versions[0])
    where = ("--endpoint-url", bucket.server.environment["AWS_ENDPOINT_URL"])
    keys = ("-o", "aws_access_key_id=somebody,aws_secret_access_key=secret")
    with mounting(bucket.url, tmp_path / "mnt", *where, *keys) as point:
        changing(*versions, point, lambda data: bucket.put("c/0", data))
