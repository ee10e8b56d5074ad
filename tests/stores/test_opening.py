"""Which store a source gets, and which sources cannot be written."""

import subprocess
import sys
import zipfile

import pytest

from zarrfuse.errors import SourceError
from zarrfuse.stores.local.store import LocalStore
from zarrfuse.stores.local.writing import WritableLocalStore
from zarrfuse.stores.opening import is_url, open_store
from zarrfuse.stores.remote.store import RemoteStore
from zarrfuse.stores.zip.store import ZipStore


@pytest.fixture
def archive(tmp_path):
    path = tmp_path / "store.zip"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("zarr.json", b"{}")
    return str(path)


@pytest.mark.parametrize("source", ["s3://bucket", "gs://b/p", "az://c/p", "https://x/y", "S3://b"])
def test_url_is_no_path(source):
    assert is_url(source)


@pytest.mark.parametrize("source", ["", "store", "/s3://x", "./a:b", "host:/path", "s3:/bucket"])
def test_path_is_no_url(source):
    assert not is_url(source)


def test_folder_is_opened_as_it_is_to_be_used(tmp_path):
    for writable, kind in ((False, LocalStore), (True, WritableLocalStore)):
        store = open_store(str(tmp_path), writable=writable)
        assert type(store) is kind
        store.close()


def test_url_of_a_bucket_is_opened(bucket, monkeypatch):
    for name, value in bucket.server.environment.items():
        monkeypatch.setenv(name, value)
    bucket.put("img.zarr/zarr.json", b"{}")
    store = open_store(f"{bucket.url}/img.zarr")
    assert type(store) is RemoteStore
    assert set(store.list("")) == {"zarr.json"}
    with pytest.raises(SourceError, match="does not exist"):
        open_store(f"{bucket.url}/new.zarr")
    assert open_store(f"{bucket.url}/new.zarr", writable=True).list("") == {}


def test_zip_is_read_only(archive):
    store = open_store(archive)
    assert type(store) is ZipStore
    store.close()
    with pytest.raises(SourceError, match="is a zip file, which can't be written: mount it with"):
        open_store(archive, writable=True)


@pytest.mark.parametrize("source", ["http://host/x.zarr", "https://host/x.zarr", "HTTPS://host/x"])
def test_http_is_not_written(source):
    with pytest.raises(SourceError, match=f"{source} is an http source, which can't be written"):
        open_store(source, writable=True)


@pytest.mark.parametrize("source", ["ftp://host/x", "ssh://host/x"])
def test_other_urls_are_not_read(source):
    with pytest.raises(SourceError, match=f"{source} is not on this machine"):
        open_store(source)


def test_a_url_without_obstore_names_the_extra():
    script = (
        "import sys; sys.modules['obstore'] = None;"
        "from zarrfuse.stores.opening import open_store; open_store('s3://bucket/x.zarr')"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60
    )
    assert "the source s3://bucket/x.zarr needs the package obstore" in done.stderr
    assert "pip install 'zarrfuse[object]'" in done.stderr


def test_folder_is_opened_without_what_object_stores_need(tmp_path):
    script = (
        "import sys; from zarrfuse.stores.opening import open_store;"
        f"open_store({str(tmp_path)!r}); open_store({str(tmp_path)!r}, writable=True);"
        "assert not {'obstore', 'zarrfuse.stores.object.store'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
