"""Readers of a group go on without a node that is refused; who opens that, or writes it, fails."""

import errno
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import tensorstore
import xarray
import zarr
from builders.documents import array, group
from builders.folders import write_keys
from builders.mounts import mounting, zarrfuse
from zarrita_reader import NODE, READER

import zarrfuse as package

UNKNOWN = array(extensions=["x.unknown"])
PIXELS = np.arange(16, dtype=np.uint8).reshape(4, 4)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Groups of Zarr v3 and v2 with an array that is read, one that is refused, and a group that is."""
    folder = tmp_path_factory.mktemp("refused")
    keys: dict[str, bytes] = {}
    for version in (2, 3):
        zarr.create_array(
            folder / f"v{version}",
            name="good",
            data=PIXELS,
            chunks=(2, 2),
            zarr_format=version,
            attributes={"_ARRAY_DIMENSIONS": ["y", "x"]} if version == 2 else None,
            dimension_names=["y", "x"] if version == 3 else None,
        )
    keys |= {"v3/array/zarr.json": UNKNOWN, "v3/array/c/0/0": b"0123"}
    keys |= {"v3/group/zarr.json": group(extensions=["x.unknown"]), "v2/array/.zarray": b"{}"}
    keys |= {"v2/.zgroup": b'{"zarr_format": 2}', "v2/array/0.0": b"0123"}
    write_keys(folder, keys)
    return folder


@pytest.fixture(scope="module")
def point(store: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    point = tmp_path_factory.mktemp("mnt")
    with mounting(store, point, "--view", "plain", "--read-write"):
        yield point


@pytest.mark.parametrize("way", ["mount", "open_store"])
@pytest.mark.parametrize("version, refused", [("v3", {"array", "group"}), ("v2", {"array"})])
def test_zarr_python_skips_it_with_a_warning(
    store: Path, point: Path, way: str, version: str, refused: set[str]
) -> None:
    source = point / version if way == "mount" else package.open_store(store / version)
    opened = zarr.open_group(source, mode="r")
    with pytest.warns(UserWarning, match="is not recognized as a component") as warned:
        assert [name for name, _ in opened.members()] == ["good"]
    assert {str(warning.message).split()[2] for warning in warned} == refused
    for name in refused:
        with pytest.raises(KeyError):
            opened[name]
        with pytest.raises(FileNotFoundError):
            zarr.open(source, path=name, mode="r")
    np.testing.assert_array_equal(opened["good"][...], PIXELS)


@pytest.mark.filterwarnings("ignore:Object at")
@pytest.mark.parametrize("version", ["v2", "v3"])
def test_xarray_reads_the_others(store: Path, version: str) -> None:
    opened = xarray.open_zarr(package.open_store(store / version), chunks=None, consolidated=False)
    assert list(opened) == ["good"]


def test_tensorstore_does_not_find_it(point: Path) -> None:
    def opened(path: str) -> tensorstore.TensorStore:
        kvstore = {"driver": "file", "path": f"{point}/{path}/"}
        return tensorstore.open({"driver": "zarr3", "kvstore": kvstore}).result()

    np.testing.assert_array_equal(opened("v3/good").read().result(), PIXELS)
    with pytest.raises(ValueError, match=r"NOT_FOUND.*v3/array/zarr\.json"):
        opened("v3/array")


def test_zarrita_does_not_find_it(point: Path) -> None:
    def read(path: str) -> subprocess.CompletedProcess[bytes]:
        command = [NODE, READER, point / path, json.dumps([[[0, 4], [0, 4]]])]
        return subprocess.run(command, capture_output=True, timeout=60, check=False)

    assert read("v3/good").stdout.endswith(PIXELS.tobytes())
    done = read("v3/array")
    assert done.returncode == 1
    assert b"NotFoundError" in done.stderr


def test_what_is_below_a_refused_group_is_read_by_its_path(store: Path, point: Path) -> None:
    write_keys(store, {"v3/group/inner/zarr.json": array(), "v3/group/inner/c/0/0": b"0123"})
    inner = zarr.open_array(point, path="v3/group/inner", mode="r")
    assert inner[:2, :2].tobytes() == b"0123"


@pytest.mark.parametrize("name", ["array", "group"])
def test_nobody_makes_another_node_over_it(store: Path, point: Path, name: str) -> None:
    for root in (point, package.open_store(store, read_only=False)):
        with pytest.raises(OSError) as refused:
            zarr.create_array(root, name=f"v3/{name}", shape=(2,), dtype="u1")
        assert refused.value.errno == errno.ENOTSUP
    kvstore = {"driver": "file", "path": f"{point}/v3/{name}/"}
    metadata = {"shape": [2], "data_type": "uint8"}
    spec = {"driver": "zarr3", "kvstore": kvstore, "metadata": metadata}
    with pytest.raises(NotImplementedError, match="Operation not supported"):
        tensorstore.open(spec, create=True).result()
    assert b"x.unknown" in (store / f"v3/{name}/zarr.json").read_bytes()


def test_what_tells_of_it_says_why(point: Path) -> None:
    told = zarrfuse("info", point / "v3/array", check=False).stdout
    assert "x.unknown" in told
