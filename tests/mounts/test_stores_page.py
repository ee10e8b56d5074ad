"""`docs/how-to/stores.md`: each command mounts a store of its kind, on a real server."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from builders.folders import files_below, zip_folder
from builders.object_server import ObjectServer
from builders.pages import blocks, shell_in
from remote_dataset import serving_source, write_dataset

COMMANDS = {block.section: block.text for block in blocks("docs/how-to/stores.md", "sh")}
URLS = {
    "A bucket": "s3://bucket/cells.zarr",
    "A public bucket": "s3://public/cells.zarr",
    "A web server that lists": "https://lists.example.org/cells.zarr",
    "A web server that lists nothing": "https://host.example.org/cells.zarr",
    "Icechunk": "icechunk+file:///data/repository",
}
"""The URL in the command of a section, in place of which the test has that of a server."""
FILES = {"A folder", "A zip"}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dataset") / "cells.zarr"
    write_dataset(folder)
    return folder


@contextmanager
def served(section: str, dataset: Path, own: Path, buckets: ObjectServer) -> Iterator[str]:
    """Serve the dataset as a section says; the URL."""
    if "bucket" in section:
        bucket = buckets.bucket()
        for key, data in files_below(dataset).items():
            if key.startswith(("plain/", "zarr.json")):
                bucket.ask("PUT", f"cells.zarr/{key}", data, headers={"x-amz-acl": "public-read"})
        yield f"{bucket.url}/cells.zarr"
        return
    kinds = {
        "A web server that lists": "http-html",
        "A web server that lists nothing": "http-none",
        "Icechunk": "icechunk-file",
    }
    with serving_source(kinds[section], dataset, own, buckets) as source:
        yield source.url


def chunk_of(run: Callable[[str], str], folder: Path) -> bytes:
    """A chunk as the mount shows it; the mount is gone afterwards."""
    found = (folder / "mnt/plain/c/1/0").read_bytes()
    run("zarrfuse unmount mnt")
    return found


def test_each_section_has_one_command() -> None:
    assert COMMANDS.keys() == URLS.keys() | FILES
    assert all(text.count("\n") == 1 for text in COMMANDS.values())


@pytest.mark.parametrize("section", sorted(FILES))
def test_a_file_or_folder_is_mounted(section: str, dataset: Path, tmp_path: Path) -> None:
    (tmp_path / "mnt").mkdir()
    (tmp_path / "cells.zarr").symlink_to(dataset)
    zip_folder(dataset, tmp_path / "cells.ozx")
    with shell_in(tmp_path) as run:
        run(COMMANDS[section])
        assert chunk_of(run, tmp_path) == (dataset / "plain/c/1/0").read_bytes()


@pytest.mark.parametrize("section", URLS)
def test_a_url_is_mounted(
    section: str,
    dataset: Path,
    tmp_path: Path,
    object_server: ObjectServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "mnt").mkdir()
    (tmp_path / "served").mkdir()
    for name, value in object_server.environment.items():
        if section != "A public bucket" or "KEY" not in name:
            monkeypatch.setenv(name, value)
    endpoint = object_server.environment["AWS_ENDPOINT_URL"]
    command = COMMANDS[section].replace("https://minio.example.org", endpoint)
    assert URLS[section] in command
    with (
        served(section, dataset, tmp_path / "served", object_server) as url,
        shell_in(tmp_path) as run,
    ):
        run(command.replace(URLS[section], url))
        assert chunk_of(run, tmp_path) == (dataset / "plain/c/1/0").read_bytes()


def test_a_store_of_zarr_python_is_mounted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    [code] = blocks("docs/how-to/stores.md", "python")
    monkeypatch.chdir(tmp_path)
    exec(compile(code.text, "docs/how-to/stores.md", "exec"), {})
    assert "cells.tiff" in capfd.readouterr().out
