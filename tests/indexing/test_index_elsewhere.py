"""Files and datasets in buckets and on servers, and work that is done on a Dask cluster."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from builders.clusters import dask_cluster
from builders.http_server import serving_http
from builders.mounts import wait_for
from builders.object_server import TestBucket, set_environment
from tiff_folders import indexed, pixels, read, same_tree, tree, write_series, write_tiff

from zarrfuse.errors import ZarrfuseError

WHOLE = np.stack([pixels(n) for n in range(3)])


@pytest.fixture
def s3(bucket: TestBucket) -> Iterator[TestBucket]:
    with set_environment(bucket.server.environment):
        yield bucket


def upload(folder: Path, s3: TestBucket, prefix: str) -> None:
    for path in folder.rglob("*.tif"):
        s3.put(f"{prefix}/{path.relative_to(folder)}", path.read_bytes())
    next_second()


def next_second() -> None:
    """Wait: a copy of the same second may be one of what was there before."""
    now = int(time.time())
    wait_for(lambda: int(time.time()) > now)


def test_a_folder_of_a_bucket_in_place(tmp_path: Path, s3: TestBucket) -> None:
    write_series(tmp_path, 3, "c/0/{}.tif".format)
    upload(tmp_path, s3, "a")
    assert indexed(f"{s3.url}/a").out == f"{s3.url}/a"
    assert (read(f"{s3.url}/a") == np.concatenate(WHOLE, 1)).all()
    keys = s3.all_keys()
    assert len(keys) == 7
    s3.put("a/c/0/1.tif", (tmp_path / "c/0/2.tif").read_bytes())
    indexed(f"{s3.url}/a")
    assert s3.all_keys() == keys
    assert (read(f"{s3.url}/a") == np.concatenate(WHOLE[[0, 2, 2]], 1)).all()


@pytest.mark.parametrize("way", ["copy", "move"])
def test_within_a_bucket(tmp_path: Path, s3: TestBucket, way: str) -> None:
    write_series(tmp_path, 3)
    upload(tmp_path, s3, "deep/a")
    with pytest.raises(ZarrfuseError, match="a bucket, which has no links"):
        indexed(f"{s3.url}/deep/a")
    assert len(s3.all_keys()) == 3
    assert indexed(f"{s3.url}/deep/a", way=way).read == 3
    assert (read(f"{s3.url}/deep/a.zarr") == WHOLE).all()
    assert len(s3.all_keys()) == 7 + (3 if way == "copy" else 0)
    assert indexed(f"{s3.url}/deep/a", way=way).read == 0
    write_tiff(tmp_path / "t003.tif", pixels(3))
    s3.put("deep/a/t003.tif", (tmp_path / "t003.tif").read_bytes())
    next_second()
    assert indexed(f"{s3.url}/deep/a", way=way).read == 1
    assert read(f"{s3.url}/deep/a.zarr").shape == (4, 16, 32)


def test_from_a_folder_to_a_bucket(tmp_path: Path, s3: TestBucket) -> None:
    write_series(tmp_path / "a", 3)
    for number in range(3):
        os.utime(tmp_path / f"a/t{number:03}.tif", (1e9, 1e9))
    with pytest.raises(ZarrfuseError, match=r"not in the bucket .*: use --copy"):
        indexed(tmp_path / "a", f"{s3.url}/out", way="move")
    assert s3.all_keys() == []
    indexed(tmp_path / "a", f"{s3.url}/out", way="copy")
    assert (read(f"{s3.url}/out") == WHOLE).all()
    assert indexed(tmp_path / "a", f"{s3.url}/out", way="copy").read == 0


@pytest.mark.parametrize("kind", ["s3", "http"])
def test_from_a_server_to_a_folder(
    tmp_path: Path, kind: str, request: pytest.FixtureRequest
) -> None:
    write_series(tmp_path / "root/a", 3)
    if kind == "http":
        with serving_http(tmp_path / "root", tmp_path / "own", "html") as server:
            _to_a_folder(f"{server.url}/a", tmp_path / "out")
        return
    s3: TestBucket = request.getfixturevalue("s3")
    upload(tmp_path / "root", s3, "x")
    _to_a_folder(f"{s3.url}/x/a", tmp_path / "out")


def _to_a_folder(source: str, out: Path) -> None:
    for way in ("link", "move"):
        with pytest.raises(ZarrfuseError, match=r"is not on this machine.*use --copy"):
            indexed(source, out, way=way)
    assert not out.exists()
    indexed(source, out, way="copy")
    assert (read(out) == WHOLE).all()
    assert indexed(source, out, way="copy").read == 0


def test_the_root_of_a_bucket_has_its_dataset_in_it(tmp_path: Path, s3: TestBucket) -> None:
    write_series(tmp_path, 3)
    for number in range(3):
        s3.put(f"t{number}.tif", (tmp_path / f"t{number:03}.tif").read_bytes())
    next_second()
    assert indexed(s3.url, way="copy").out == f"{s3.url}/index.zarr"
    assert (read(f"{s3.url}/index.zarr") == WHOLE).all()
    assert indexed(s3.url, way="copy").read == 0


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    with dask_cluster() as address:
        yield address


def test_a_dask_cluster_writes_the_same(tmp_path: Path, cluster: str) -> None:
    write_series(tmp_path / "a", 40)
    indexed(tmp_path / "a", tmp_path / "one/a.zarr")
    indexed(tmp_path / "a", tmp_path / "two/a.zarr", scheduler=cluster)
    same_tree(tree(tmp_path / "one"), tree(tmp_path / "two"))
    # The workers stay, and the folders are others.
    (tmp_path / "a").rename(tmp_path / "b")
    write_series(tmp_path / "a", 30, begin=5)
    again = indexed(tmp_path / "a", tmp_path / "two/a.zarr", scheduler=cluster, delete=True)
    assert again.read == 30
    assert (read(tmp_path / "two/a.zarr")[0] == pixels(5)).all()
    write_tiff(tmp_path / "a/t007.tif", pixels(1), tile=(32, 32))
    with pytest.raises(ZarrfuseError, match=r"t007.tif"):
        indexed(tmp_path / "a", tmp_path / "two/a.zarr", scheduler=cluster)
