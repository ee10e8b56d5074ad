"""A mount has the same names and the same bytes whatever server its source is on."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from builders.mounts import mounting, status
from builders.object_server import ObjectServer
from remote_dataset import CORE, SOURCES, serving_source, write_dataset

VIEWS = ("chunks", "plain", "images")
Tree = dict[str, bytes]


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dataset") / "data"
    write_dataset(folder)
    return folder


@pytest.fixture(scope="module")
def expected(dataset: Path, tmp_path_factory: pytest.TempPathFactory) -> Tree:
    """What a mount of the folder shows, in each view."""
    with mounting(dataset, tmp_path_factory.mktemp("local"), "--view", "all") as point:
        tree = {path: (point / path).read_bytes() for path in files(point)}
    assert {path.split("/")[0] for path in tree} == set(VIEWS)
    return tree


@pytest.fixture(scope="module", params=SOURCES)
def source(request: pytest.FixtureRequest) -> str:
    """The kind of server."""
    return request.param


@pytest.fixture(scope="module")
def mount(
    source: str,
    dataset: Path,
    object_server: ObjectServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Path]:
    """Where the dataset is mounted from it."""
    own = tmp_path_factory.mktemp("server")
    with (
        serving_source(source, dataset, own, object_server) as served,
        mounting(
            served.url, tmp_path_factory.mktemp("remote"), "--view", "all", *served.options
        ) as point,
    ):
        yield point


def files(point: Path) -> Iterator[str]:
    """The files in each view."""
    for view in VIEWS:
        for path in (point / view).rglob("*"):
            if not path.is_dir():
                yield path.relative_to(point).as_posix()


def shown_by(source: str, tree: Tree) -> Tree:
    """What of the dataset a source can have."""
    if not source.startswith("icechunk"):
        return tree
    return {path: data for path, data in tree.items() if path.split("/")[1] in CORE}


def content(path: str, data: bytes) -> Any:
    """The bytes of a file; of a document what it says, since Icechunk writes it anew."""
    return json.loads(data) if path.endswith("zarr.json") else data


def test_each_file_has_the_bytes_that_it_has_from_a_folder(
    source: str, mount: Path, expected: Tree
) -> None:
    for path, data in shown_by(source, expected).items():
        found = (mount / path).read_bytes()
        if source.startswith("icechunk"):
            assert content(path, found) == content(path, data), path
        else:
            assert found == data, path
            assert (mount / path).stat().st_size == len(data), path


def test_the_names_are_those_of_a_folder(source: str, mount: Path, expected: Tree) -> None:
    listed, wanted = set(files(mount)), set(shown_by(source, expected))
    if source.startswith("icechunk"):
        listed = {path for path in listed if path.split("/")[1] in CORE}
    if source in ("http-html", "http-webdav"):  # nginx hides these, and below Zarr v3 nobody asks
        assert wanted - listed == {path for path in wanted if "/.z" in path}
        wanted &= listed
    if source != "http-none":
        assert listed == wanted
        return
    # Nothing names the group of Zarr v2; and the server is not asked which chunks are stored.
    assert wanted - listed == {path for path in wanted if path.split("/")[1] == "old"}
    absent = listed - wanted
    assert len(absent) == 2 * 8
    for path in absent:
        with pytest.raises(FileNotFoundError):
            (mount / path).read_bytes()


def test_the_status_counts_what_the_server_was_asked(
    source: str, mount: Path, expected: Tree
) -> None:
    for path in shown_by(source, expected):
        (mount / path).read_bytes()
    told = status(mount)
    assert told["server"]["requests"] > 0
    assert told["server"]["failed"] == 0
    assert 0 < told["cache"]["bytes"] <= told["cache"]["capacity_bytes"]
