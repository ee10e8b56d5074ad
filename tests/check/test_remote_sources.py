"""`zarrfuse check` of what is not on this machine."""

import pytest
from builders.documents import array, group
from builders.folders import write_files
from builders.http_server import serving_http

from zarrfuse.check.run import CLEAN, FOUND, run
from zarrfuse.config import RemoteConfig


def test_a_bucket_is_repaired_with_the_settings_with_which_it_is_read(bucket, monkeypatch):
    environment = bucket.server.environment
    for name in environment:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    bucket.put("a.zarr/zarr.json", group())
    given = {
        "endpoint": environment["AWS_ENDPOINT_URL"],
        "region": environment["AWS_REGION"],
        "access_key_id": environment["AWS_ACCESS_KEY_ID"],
        "secret_access_key": environment["AWS_SECRET_ACCESS_KEY"],
    }
    remote = RemoteConfig(settings=tuple(given.items()), timeout_s=5.0)
    source = f"{bucket.url}/a.zarr"
    assert run(source, deep=False, as_json=False, repair=True, remote=remote) == CLEAN


@pytest.mark.parametrize("size, code", [(4, CLEAN), (3, FOUND)])
def test_chunks_of_a_server_that_lists_nothing_are_checked(tmp_path, size, code):
    write_files(
        tmp_path / "root",
        {"zarr.json": array((4, 4), (2, 2)), "c/0/0": bytes(4), "c/1/1": bytes(size)},
    )
    with serving_http(tmp_path / "root", tmp_path / "nginx", "none") as server:
        assert run(server.url, deep=True, as_json=False) == code
