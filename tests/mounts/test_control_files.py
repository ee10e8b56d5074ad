"""The control files and the attributes tell what a mount knows of itself and of each name."""

import errno
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from builders.documents import array, concat_parts, group, suffix_keys
from builders.folders import write_keys
from builders.mounts import getfattr, info, mounting, status, wait_for

from zarrfuse import __version__

Mounted = Callable[..., Path]
Stored = Callable[..., Path]

KEYS = {
    "zarr.json": group(),
    "README.txt": b"read me",
    "a/zarr.json": array(
        keys=suffix_keys(".tiff"),
        transformers=[concat_parts("", (".index", 4))],
        dimension_names=["y", None],
        fill_value="0x00",
    ),
    "a/c/0/1.tiff": b"II*\0",
    "a/c/0/1.tiff.index": b"last",
    "a/c/1/1.tiff": b"II*\0",
    "a/c/1/0.tiff": b"II*\0",
    "a/c/1/0.tiff.index": b"too long",
    "bad/zarr.json": array(extensions=[{"name": "example.unheard"}]),
    "bad/c/0/0": b"x",
}


@pytest.fixture(scope="module")
def point(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A mount of `KEYS` with attributes, for all tests that only look at it."""
    base = tmp_path_factory.mktemp("told")
    write_keys(base / "store", KEYS)
    with mounting(base / "store", base / "mnt", "--xattrs") as point:
        yield point


def test_the_status_is_json_that_changes(stored: Stored, mounted: Mounted) -> None:
    point = mounted(stored(KEYS))
    before = status(point)
    assert (point / "a/c/0/1.tiff").read_bytes() == b"II*\0last"
    wait_for(lambda: status(point)["uptime_s"] > before["uptime_s"])
    after = status(point)
    assert after["requests"] > before["requests"]
    assert after["bytes_read"] >= before["bytes_read"] + 8 or after["bytes_read"] > 0
    assert after["errors"] == before["errors"] == {}
    assert (after["mountpoint"], after["view"]) == (str(point), "chunks")
    assert after["version"] == __version__
    os.kill(after["pid"], 0)


def test_the_status_counts_errors_and_keeps_the_last(stored: Stored, mounted: Mounted) -> None:
    point = mounted(stored(KEYS))
    with pytest.raises(OSError):
        (point / "a/c/1/1.tiff").read_bytes()
    found = status(point)
    assert list(found["errors"]) == ["EIO"]
    assert "`.index` is missing" in found["last_errors"]["read"]
    assert not (point / "nothing").exists()
    assert status(point)["errors"] == found["errors"]


def test_the_status_counts_refusals_apart(stored: Stored, mounted: Mounted) -> None:
    source = stored(KEYS)
    (source / "out").symlink_to("/etc/passwd")
    point = mounted(source)
    with pytest.raises(PermissionError):
        (point / "out").read_bytes()
    with pytest.raises(OSError):
        (point / "new").write_bytes(b"")
    found = status(point)
    assert found["errors"] == found["last_errors"] == {}
    assert found["refusals"] == {"EACCES": 1}  # the kernel itself says EROFS
    assert "leads out of the store" in found["last_refusals"]["open"]


def test_the_size_of_a_control_file_is_that_of_its_content(point: Path) -> None:
    path = point / ".zarrfuse/info/a/c/0/1.tiff"
    assert path.stat().st_size == len(path.read_bytes())
    for tool in ("cat", "head"):
        done = subprocess.run([tool, path], capture_output=True, check=True)
        assert done.stdout.startswith(b"{")


def test_info_of_a_chunk_tells_coordinates_key_and_parts(point: Path) -> None:
    found = info(point, "a/c/0/1.tiff")
    assert (found["view"], found["path"]) == ("chunks", "a/c/0/1.tiff")
    assert found["chunk_coords"] == [0, 1]
    assert found["key"] == "c/0/1.tiff"
    assert [(part["key"], part["stored_size"]) for part in found["parts"]] == [
        ("a/c/0/1.tiff", 4),
        ("a/c/0/1.tiff.index", 4),
    ]
    assert (found["shape"], found["data_type"]) == ([4, 4], "uint8")
    assert "error" not in found


def test_info_of_an_array_is_under_its_document(point: Path) -> None:
    found = info(point, "a/zarr.json")
    assert (found["node_type"], found["chunk_shape"]) == ("array", [2, 2])
    assert [part["key_suffix"] for part in found["parts"]] == ["", ".index"]
    assert info(point, "zarr.json")["node_type"] == "group"
    assert "example.unheard" in info(point, "bad/zarr.json")["error"]
    assert "example.unheard" in info(point, "bad/c/0/0")["error"]


def test_info_of_a_broken_chunk_has_the_error(point: Path) -> None:
    assert "`.index` is missing" in info(point, "a/c/1/1.tiff")["error"]
    assert "`.index` has 8 bytes" in info(point, "a/c/1/0.tiff")["error"]


def test_info_is_rendered_anew_at_each_open(stored: Stored, mounted: Mounted) -> None:
    source = stored(KEYS)
    point = mounted(source)
    assert "error" in info(point, "a/c/1/1.tiff")
    (source / "a/c/1/1.tiff.index").write_bytes(b"1234")
    wait_for(lambda: "error" not in info(point, "a/c/1/1.tiff"))


def test_there_is_no_info_of_what_is_not_there(point: Path) -> None:
    for path in (
        ".zarrfuse/info/nothing",
        ".zarrfuse/info/a/c/0/0.tiff",
        ".zarrfuse/info/a/c/0/1.tiff.index",
        ".zarrfuse/info/a/nothing/deeper",
        ".zarrfuse/nothing",
        ".zarrfuse/info/.zarrfuse",
    ):
        with pytest.raises(FileNotFoundError):
            os.stat(point / path)


def test_control_folders_can_be_walked(point: Path) -> None:
    assert sorted(os.listdir(point / ".zarrfuse")) == ["info", "status.json"]
    assert sorted(os.listdir(point / ".zarrfuse/info")) == ["README.txt", "a", "bad", "zarr.json"]
    paths = [path for path in (point / ".zarrfuse").rglob("*") if path.is_file()]
    assert len(paths) == 9
    for path in paths:
        json.loads(path.read_bytes())


def test_info_of_names_that_are_no_text(stored: Stored, mounted: Mounted) -> None:
    name = os.fsdecode(b"latin1-\xe9")
    point = mounted(stored({f"{name}/zarr.json": b"{", f"{name}/c": b"x", name + "2": b"y"}))
    for path in (f"{name}/zarr.json", f"{name}/c", name + "2"):
        json.loads((point / ".zarrfuse/info" / path).read_bytes())


def test_the_status_is_json_also_after_an_error_of_a_name_that_is_no_text(
    stored: Stored, mounted: Mounted
) -> None:
    name = os.fsdecode(b"latin1-\xe9")
    source = stored({"zarr.json": group()})
    (source / name).symlink_to("/etc/passwd")
    point = mounted(source)
    with pytest.raises(PermissionError):
        (point / name).open()
    assert status(point)["refusals"] == {"EACCES": 1}


# -- attributes ----------------------------------------------------------------------------------


def test_attributes_of_an_array_print_as_text(point: Path) -> None:
    for path in (point / "a", point / "a/zarr.json"):
        found = getfattr(path)
        words = ("node_type", "data_type", "fill_value")
        assert [found[f"user.zarr.{name}"] for name in words] == ["array", "uint8", "0x00"]
        assert json.loads(found["user.zarr.shape"]) == [4, 4]
        assert json.loads(found["user.zarr.chunk_shape"]) == [2, 2]
        assert json.loads(found["user.zarr.dimension_names"]) == ["y", None]
        assert json.loads(found["user.zarr.codecs"])[0]["name"] == "bytes"
        assert json.loads(found["user.zarr.parts"]) == [
            {"key_suffix": ""},
            {"key_suffix": ".index", "size": 4},
        ]
        assert found["user.zarrfuse.view"] == "chunks"
        assert "user.zarrfuse.error" not in found


def test_attributes_of_a_chunk_add_where_it_is(point: Path) -> None:
    found = getfattr(point / "a/c/0/1.tiff")
    assert json.loads(found["user.zarr.chunk_coords"]) == [0, 1]
    assert [part["stored_size"] for part in json.loads(found["user.zarr.parts"])] == [4, 4]


def test_attributes_of_what_is_wrong_have_the_error(point: Path) -> None:
    assert "`.index` is missing" in getfattr(point / "a/c/1/1.tiff")["user.zarrfuse.error"]
    assert "example.unheard" in getfattr(point / "bad")["user.zarrfuse.error"]


def test_attributes_of_a_group_and_of_a_file_beside_it(point: Path) -> None:
    assert getfattr(point)["user.zarr.node_type"] == "group"
    assert getfattr(point / "README.txt")["user.zarrfuse.view"] == "chunks"


def test_attributes_are_listed_and_read_by_name(point: Path) -> None:
    for path in (point, point / "a", point / "a/c/0/1.tiff", point / "README.txt"):
        for name in os.listxattr(path):
            assert os.getxattr(path, name)
    for name in ("user.nothing", "user.zarr.nothing", "security.capability"):
        with pytest.raises(OSError) as raised:
            os.getxattr(point / "a", name)
        assert raised.value.errno in (errno.ENODATA, errno.EOPNOTSUPP)
    assert os.listxattr(point / ".zarrfuse/status.json") == []


def test_attributes_that_are_not_text_in_ascii_or_very_long_can_be_read(
    stored: Stored, mounted: Mounted
) -> None:
    names = [f"dimension number {index}, µ" for index in range(5000)]
    point = mounted(
        stored({"zarr.json": array([1] * 5000, [1] * 5000, dimension_names=names)}), "--xattrs"
    )
    for name in os.listxattr(point):
        assert os.getxattr(point, name)


def test_without_the_option_there_are_no_attributes(stored: Stored, mounted: Mounted) -> None:
    point = mounted(stored(KEYS))
    for path in (point, point / "a/c/0/1.tiff"):
        with pytest.raises(OSError) as raised:
            os.listxattr(path)
        assert raised.value.errno == errno.ENOTSUP
        with pytest.raises(OSError) as raised:
            os.getxattr(path, "user.zarr.shape")
        assert raised.value.errno == errno.ENOTSUP


@pytest.mark.parametrize("option", ["--xattrs", "-v"])
def test_ls_has_nothing_to_complain_of(stored: Stored, mounted: Mounted, option: str) -> None:
    point = mounted(stored(KEYS), option)
    done = subprocess.run(["ls", "-lR", point], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_raw_view_has_attributes_and_info_too(stored: Stored, mounted: Mounted) -> None:
    point = mounted(stored(KEYS), "--xattrs", "--view", "raw")
    assert getfattr(point / "a/c/0/1.tiff.index") == {"user.zarrfuse.view": "raw"}
    assert info(point, "a/c/0/1.tiff.index") == {
        "view": "raw",
        "path": "a/c/0/1.tiff.index",
        "kind": "file",
        "size": 4,
    }
