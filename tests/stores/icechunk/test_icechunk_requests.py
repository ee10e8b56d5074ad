"""A branch, a tag or a snapshot of an Icechunk repository is a source, on a disk and in a bucket."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import icechunk
import pytest
import zarr
from builders.mounts import ENVIRONMENT, zarrfuse
from builders.object_server import TestBucket, set_environment
from builders.zarr_stores import write_image

from zarrfuse.config import RemoteConfig
from zarrfuse.errors import NotFound, SourceError, UnusableSource
from zarrfuse.stores.base import read
from zarrfuse.stores.icechunk.opening import open_requests
from zarrfuse.stores.icechunk.source import parse
from zarrfuse.stores.opening import open_store
from zarrfuse.stores.remote.store import RemoteStore

ROW = bytes([10, 11, 12, 13, 20, 21, 22, 23])
"""The chunk (0, 0) as `write_image` writes it."""


class Commits:
    """A repository with the commits that tests make."""

    def __init__(self, storage: "icechunk.Storage", url: str) -> None:
        self.url = url
        self.repository = icechunk.Repository.create(storage)

    def change(self, write: Callable[["icechunk.IcechunkStore"], object]) -> str:
        session = self.repository.writable_session("main")
        write(session.store)
        return session.commit("changed")

    def store(self, shown: str = "", **options) -> RemoteStore:
        store = open_store(f"{self.url}{shown}", remote=RemoteConfig(**options))
        assert isinstance(store, RemoteStore)
        return store


def set_to(value: int) -> Callable[["icechunk.IcechunkStore"], object]:
    def write(store: "icechunk.IcechunkStore") -> None:
        zarr.open_array(store, path="a")[:] = value

    return write


@pytest.fixture
def commits(tmp_path: Path) -> Commits:
    icechunk.set_logs_filter("error")
    folder = tmp_path / "repository"
    return Commits(icechunk.local_filesystem_storage(str(folder)), f"icechunk+file://{folder}")


@pytest.fixture
def in_bucket(bucket: TestBucket) -> Commits:
    storage = icechunk.s3_storage(
        bucket=bucket.name,
        prefix="some/repository",
        endpoint_url=bucket.server.environment["AWS_ENDPOINT_URL"],
        allow_http=True,
        force_path_style=True,
        region="us-east-1",
        access_key_id="somebody",
        secret_access_key="secret",
    )
    return Commits(storage, f"icechunk+s3://{bucket.name}/some/repository")


def names(store: RemoteStore, folder: str) -> list[str]:
    return sorted(entry.name for entry in store.scan(folder))


def test_a_repository_has_the_keys_that_zarr_wrote(commits: Commits) -> None:
    commits.change(write_image)
    store = commits.store()
    assert names(store, "") == ["a", "b", "zarr.json"]
    assert names(store, "a") == ["c", "zarr.json"]
    assert names(store, "a/c") == ["0", "1"]
    assert names(store, "a/c/1") == ["0", "1"]
    assert read(store, "a/c/0/0") == ROW
    assert b"array" in read(store, "a/zarr.json")
    assert store.stat("a/c/0").kind.name == "FOLDER"
    store.close()


@pytest.mark.parametrize(
    "key", ["nothing", "a/nothing", "a/c/9/9", "a/c/0/0/0", "a/c/x", "b/.zarray", "a/zarr.json/x"]
)
def test_what_is_not_there_is_not_found(commits: Commits, key: str) -> None:
    commits.change(write_image)
    store = commits.store()
    with pytest.raises(NotFound):
        store.stat(key)
    store.close()


def test_a_chunk_that_was_not_written_is_not_found(commits: Commits) -> None:
    commits.change(lambda store: zarr.create_array(store, shape=(4,), chunks=(2,), dtype="u1"))
    store = commits.store()
    with pytest.raises(NotFound):
        store.stat("c/0")
    store.close()


def test_branches_tags_and_snapshots_are_shown_as_they_are_named(commits: Commits) -> None:
    first = commits.change(write_image)
    commits.repository.create_tag("v1", first)
    commits.repository.create_branch("other", first)
    commits.change(set_to(7))
    shown = {"": 7, "?branch=main": 7, "?branch=o%74her": 10, "?tag=v1": 10}
    for query, expected in {**shown, f"?snapshot={first}": 10}.items():
        store = commits.store(query)
        assert read(store, "a/c/0/0")[0] == expected, query
        assert store.permanent == (query.startswith(("?tag", "?snapshot")))
        store.close()


def test_a_branch_is_looked_up_again(commits: Commits) -> None:
    commits.change(write_image)
    store = commits.store(ttl_s=0)
    before = store.open("a/c/0/0")
    commits.change(set_to(7))
    assert read(store, "a/c/0/0") == bytes([7] * 8)
    buffer = bytearray(8)
    before.readinto(memoryview(buffer), 0)
    assert bytes(buffer) == ROW, "an open file keeps the bytes that it had"
    store.close()


def test_an_open_file_is_read_after_many_commits(commits: Commits) -> None:
    commits.change(write_image)
    store = commits.store(ttl_s=0, cache_bytes=0)
    opened = store.open("a/c/0/0")
    for value in range(1, 7):
        commits.change(set_to(value))
        assert read(store, "a/c/0/0") == bytes([value] * 8)
    buffer = bytearray(8)
    opened.readinto(memoryview(buffer), 0)
    assert bytes(buffer) == ROW
    store.close()


def test_a_branch_is_kept_until_it_is_looked_up_again(commits: Commits) -> None:
    commits.change(write_image)
    store = commits.store(ttl_s=1000)
    assert read(store, "a/c/0/0") == ROW
    commits.change(set_to(7))
    assert read(store, "a/c/0/0") == ROW
    assert read(store, "a/c/1/1")[0] == 34, "of the same snapshot, although it was not read before"
    store.close()


def test_a_repository_in_a_bucket_is_a_source(in_bucket: Commits, bucket: TestBucket) -> None:
    in_bucket.change(write_image)
    with set_environment(bucket.server.environment):
        store = in_bucket.store()
        assert names(store, "a/c") == ["0", "1"]
        assert read(store, "a/c/0/0") == ROW
        store.close()
        with pytest.raises(SourceError, match="has no tag v9 \\(it has none\\)"):
            in_bucket.store("?tag=v9")
        with pytest.raises(SourceError, match=r"no Icechunk repository in s3://bucket-\d+/nothing"):
            open_requests(f"icechunk+s3://{bucket.name}/nothing", RemoteConfig())


def test_settings_say_endpoint_and_region(in_bucket: Commits, bucket: TestBucket) -> None:
    in_bucket.change(write_image)
    environment = dict(bucket.server.environment)
    settings = (("endpoint", environment.pop("AWS_ENDPOINT_URL")), ("region", "us-east-1"))
    with set_environment({**environment, "AWS_REGION": ""}):
        store = in_bucket.store(settings=settings)
        assert read(store, "a/c/0/0") == ROW
        store.close()
        # This server refuses requests that are not signed.
        with pytest.raises(SourceError, match="AWS_SKIP_SIGNATURE"):
            in_bucket.store(settings=(*settings, ("skip_signature", "true")))


@pytest.mark.parametrize(
    ("shown", "message"),
    [
        ("?branch=no", r"the repository has no branch no \(it has main\)"),
        ("?tag=no", r"the repository has no tag no \(it has none\)"),
        ("?snapshot=no", "the repository has no snapshot no"),
        ("?snapshot=ZZZZZZZZZZZZZZZZZZZ0", "the repository has no snapshot ZZZ"),
    ],
)
def test_what_a_repository_does_not_have_is_said(
    commits: Commits, shown: str, message: str
) -> None:
    with pytest.raises(SourceError, match=message) as caught:
        commits.store(shown)
    assert str(caught.value).startswith(f"the source {commits.url}{shown}: ")


def test_a_folder_without_a_repository_is_said(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="there is no Icechunk repository in /"):
        open_requests(f"icechunk+file://{tmp_path}", RemoteConfig())
    with pytest.raises(SourceError, match="there is no folder"):
        open_requests(f"icechunk+file://{tmp_path}/nothing", RemoteConfig())
    assert not (tmp_path / "nothing").exists()


def test_a_server_that_does_not_answer_is_said() -> None:
    config = RemoteConfig(settings=(("endpoint", "http://127.0.0.1:9"),), timeout_s=1)
    credentials = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x"}
    said = r"the source icechunk\+s3://bucket/x .*AWS_ENDPOINT_URL"
    with set_environment(credentials), pytest.raises(SourceError, match=said):
        open_requests("icechunk+s3://bucket/x", config)


def test_a_missing_package_is_said(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['icechunk'] = None\n"
        "from zarrfuse.stores.icechunk.opening import open_requests\n"
        "from zarrfuse.config import RemoteConfig\n"
        "open_requests('icechunk+file:///x', RemoteConfig())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=ENVIRONMENT, check=False
    )
    assert "needs the package icechunk: pip install 'zarrfuse[icechunk]'" in done.stderr


@pytest.mark.parametrize(
    "source",
    [
        "icechunk+file://relative",
        "icechunk+s3:///prefix",
        "icechunk+file:///x?branch=",
        "icechunk+file:///x?commit=1",
        "icechunk+file:///x?branch=a&tag=b",
        "icechunk+gs://bucket",
    ],
)
def test_a_url_that_names_nothing_is_refused(source: str) -> None:
    with pytest.raises(UnusableSource, match="the source icechunk"):
        parse(source)


def test_a_profile_is_refused_with_what_to_set() -> None:
    with pytest.raises(UnusableSource, match="AWS_PROFILE=mine"):
        open_requests("icechunk+s3://bucket/x", RemoteConfig(profile="mine"))


def test_a_repository_is_not_written(commits: Commits) -> None:
    with pytest.raises(SourceError, match="which can't be written"):
        open_store(commits.url, writable=True)


@pytest.mark.parametrize("view", ["chunks", "plain"])
def test_a_branch_is_mounted_by_the_command(
    commits: Commits, mounted: Callable[..., Path], view: str
) -> None:
    tag = commits.change(write_image)
    commits.repository.create_tag("v1", tag)
    commits.change(set_to(7))
    point = mounted(f"{commits.url}?tag=v1", "--view", view)
    assert (point / "a/c/0/0").read_bytes() == ROW
    assert zarr.open_array(point / "a", mode="r")[3, 7] == 47
    point = mounted(commits.url, "--view", view)
    assert (zarr.open_array(point / "a", mode="r")[:] == 7).all()


def test_a_branch_that_is_not_there_is_said_by_the_command(
    commits: Commits, tmp_path: Path
) -> None:
    (tmp_path / "mnt").mkdir()
    done = zarrfuse("mount", f"{commits.url}?branch=no", tmp_path / "mnt", check=False)
    assert done.returncode == 1
    assert "the repository has no branch no (it has main)" in done.stderr
