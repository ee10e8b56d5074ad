"""`info`, `demo` and `--version`, as a person uses them."""

import json
import os
import re
import signal
import subprocess
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from builders.documents import array, concat_parts, group, suffix_keys, v2_array
from builders.folders import write_keys, zip_folder
from builders.mounts import COMMAND, clear, mounting, wait_for, zarrfuse
from builders.processes import processes_about

from zarrfuse import __version__
from zarrfuse.mounts import kernel_mounts

Mounted = Callable[..., Path]
Stored = Callable[..., Path]

KEYS = {
    "zarr.json": group(),
    "image/zarr.json": array(
        [2048, 1024],
        [512, 256],
        keys=suffix_keys(".tiff"),
        transformers=[concat_parts("", (".index", 68))],
    ),
    "image/c/0/0.tiff": b"x",
    "image/c/0/0.tiff.index": b"y" * 68,
    "image/c/0/1.tiff": b"x",
    "old/.zarray": v2_array(),
    "folder/scalar/zarr.json": array([]),
    "future/zarr.json": array([4], extensions=[{"name": "example.unheard"}]),
    "future/inner/zarr.json": group(),
    "torn/zarr.json": b"{",
}


@pytest.fixture
def source(stored: Stored) -> Path:
    return stored(KEYS)


@pytest.fixture(scope="module")
def point(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A mount of the same store, for all tests that only look at it."""
    base = tmp_path_factory.mktemp("told")
    write_keys(base / "store", KEYS)
    with mounting(base / "store", base / "mnt") as point:
        yield point


def line_of(text: str, name: str) -> str:
    [line] = [line for line in text.splitlines() if f"{name}  " in line]
    return line


def assert_tells(text: str) -> None:
    image = line_of(text, "image")
    for words in ("array", "2048x1024", "uint8", "512x256", "c/0/0.tiff", ".index (68 bytes)"):
        assert words in image
    assert "Zarr v2" in line_of(text, "old")
    assert "scalar" in line_of(text, "scalar").split("  ", 1)[1]
    assert "example.unheard" in line_of(text, "future")
    assert "group" in line_of(text, "inner")
    assert "not loaded" in line_of(text, "torn")


def test_info_of_a_folder_is_its_tree(source: Path) -> None:
    assert_tells(zarrfuse("info", source).stdout)


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_info_of_a_zip_is_the_same_tree(source: Path, tmp_path: Path, method: int) -> None:
    zip_folder(source, tmp_path / "store.ozx", method)
    assert_tells(zarrfuse("info", tmp_path / "store.ozx").stdout)


def test_info_of_a_mount_is_the_same_tree(point: Path) -> None:
    assert_tells(zarrfuse("info", point).stdout)


def test_info_is_json_when_asked_to(source: Path, point: Path) -> None:
    own = json.loads(zarrfuse("info", source, "--json").stdout)
    nodes = {node["path"]: node for node in own["nodes"]}
    assert set(nodes) == {
        "",
        "image",
        "old",
        "folder",
        "folder/scalar",
        "future",
        "future/inner",
        "torn",
    }
    assert nodes["image"]["chunk_shape"] == [512, 256]
    assert nodes["image"]["parts"] == [{"key_suffix": ""}, {"key_suffix": ".index", "size": 68}]
    assert "example.unheard" in nodes["future"]["error"]
    told = json.loads(zarrfuse("info", point, "--json").stdout)
    assert [node["path"] for node in told["nodes"]] == [node["path"] for node in own["nodes"]]


def test_info_of_a_path_in_a_mount_is_of_that_path(point: Path) -> None:
    text = zarrfuse("info", point / "image/c/0/0.tiff").stdout
    assert "[0, 0]" in text
    found = json.loads(zarrfuse("info", point / "image/c/0/0.tiff", "--json").stdout)
    assert (found["chunk_coords"], found["size"]) == ([0, 0], 69)
    broken = zarrfuse("info", point / "image/c/0/1.tiff").stdout
    assert "`.index` is missing" in broken
    assert "2048x1024" in zarrfuse("info", point / "image").stdout
    assert json.loads(zarrfuse("info", point / "future/zarr.json", "--json").stdout)["error"]


@pytest.mark.parametrize("path", ["nothing", "image/c/0/9.tiff", "image/c/0/0.tiff.index"])
def test_info_of_what_is_not_in_a_mount_is_refused(point: Path, path: str) -> None:
    done = zarrfuse("info", point / path, check=False)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert path.rpartition("/")[2] in done.stderr


def test_info_of_what_is_no_source_is_refused(source: Path, tmp_path: Path) -> None:
    for path in (tmp_path / "nothing", source / "zarr.json"):
        done = zarrfuse("info", path, check=False)
        assert done.returncode == 1
        assert str(path) in done.stderr
        assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_info_of_names_that_are_no_text_is_told_anyway(
    stored: Stored, options: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "utf-8:strict")  # as in most locales
    name = os.fsdecode(b"latin1-\xe9")
    source = stored({f"{name}/zarr.json": array([4]), "größe/zarr.json": array([4])})
    done = zarrfuse("info", source, *options, check=False, command=COMMAND)
    assert (done.returncode, done.stderr) == (0, "")
    assert "latin1-" in done.stdout


def test_info_of_what_may_not_be_looked_into_goes_on(
    source: Path, tmp_path: Path, mounted: Mounted
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (source / "a-link-out").symlink_to(tmp_path / "elsewhere")
    for path in (source, mounted(source)):
        told = zarrfuse("info", path).stdout
        assert_tells(told)
        assert "a-link-out" not in told  # whatever it leads to, it is no node


NO_ZARR = {
    "an empty folder": ({}, "there is no Zarr array or group in"),
    "a folder without Zarr": ({"a/b/notes.txt": b"", "zarr.txt": b""}, "there is no Zarr array"),
    "a broken root": (
        {"zarr.json": b'{"zarr_format": 3', "a/zarr.json": array()},
        "not loaded: zarr.json",
    ),
}


@pytest.mark.parametrize("keys, said", NO_ZARR.values(), ids=NO_ZARR)
def test_a_folder_without_zarr_is_mounted_and_told_of(
    tmp_path: Path, mountpoint: Path, keys: dict[str, bytes], said: str
) -> None:
    source = tmp_path / "source"
    source.mkdir()
    write_keys(source, keys)
    done = zarrfuse("mount", source, mountpoint)
    assert str(source) in done.stderr
    assert said in done.stderr
    assert done.stderr.startswith("zarrfuse: warning: ")
    assert len(done.stderr.splitlines()) == 1
    assert {path.name for path in mountpoint.iterdir()} == {key.split("/")[0] for key in keys}
    for path in (source, mountpoint):
        done = zarrfuse("info", path, check=False)
        assert done.returncode == 2
        assert said in done.stderr


def test_a_mount_of_something_is_silent(source: Path, mountpoint: Path) -> None:
    assert zarrfuse("mount", source, mountpoint).stderr == ""


def test_info_of_a_chunk_outside_a_mount_says_where_to_ask(source: Path) -> None:
    done = zarrfuse("info", source / "image/c/0/0.tiff", check=False)
    assert done.returncode == 1
    assert "is a file outside a mount" in done.stderr


def test_info_of_a_raw_mount_tells_of_files(source: Path, mounted: Mounted) -> None:
    point = mounted(source, "--view", "raw")
    found = json.loads(zarrfuse("info", point / "image/c/0/0.tiff.index", "--json").stdout)
    assert (found["view"], found["size"]) == ("raw", 68)
    zarrfuse("info", point)


def test_info_of_a_dead_mount_is_refused_in_a_sentence(source: Path, mounted: Mounted) -> None:
    point = mounted(source)
    for daemon in processes_about(point):
        os.kill(daemon, signal.SIGKILL)
    wait_for(lambda: not processes_about(point))
    done = zarrfuse("info", point, check=False)
    assert done.returncode == 1
    assert f"the mount {point} has no daemon any more" in done.stderr


def test_a_demo_that_cannot_be_mounted_says_where_its_data_is(tmp_path: Path) -> None:
    write_keys(tmp_path, {"mnt/own.txt": b""})
    done = zarrfuse("demo", tmp_path, check=False)
    assert done.returncode == 1
    written, reason = done.stderr.splitlines()
    assert written == f"zarrfuse: the data is in {tmp_path}/data, but could not be mounted"
    assert "mnt is not empty" in reason
    assert (tmp_path / "data/cells.zarr/zarr.json").exists()


def test_the_help_names_the_commands_to_begin_with() -> None:
    last = " ".join(zarrfuse("--help").stdout.splitlines()[-4:])
    assert "zarrfuse doctor" in last
    assert "zarrfuse demo" in last


def test_the_demo_is_written_mounted_and_shown_also_twice(tmp_path: Path) -> None:
    folder = tmp_path / "demo here"
    point = folder / "mnt"
    try:
        for _ in range(2):
            text = zarrfuse("demo", folder).stdout
            assert str(point) in text
            assert "unmount" in text
            assert (point / "cells.zarr/zstd/c/0/1.tiff").read_bytes()[:4] == b"II*\0"
            assert [mount.mountpoint for mount in kernel_mounts.mounts()].count(str(point)) == 1
        zarrfuse("unmount", point)
        zarrfuse("demo", folder)
        zarrfuse("unmount", point)
    finally:
        clear(folder)


def test_the_demo_mounts_again_after_its_daemon_was_killed(tmp_path: Path) -> None:
    try:
        zarrfuse("demo", tmp_path)
        for daemon in processes_about(tmp_path):
            os.kill(daemon, signal.SIGKILL)
        wait_for(lambda: not processes_about(tmp_path))
        zarrfuse("demo", tmp_path)
        assert (tmp_path / "mnt/README.txt").read_bytes()
        zarrfuse("unmount", tmp_path / "mnt")
    finally:
        clear(tmp_path)


def test_the_demo_does_not_write_over_other_data(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data/precious").write_bytes(b"mine")
    done = zarrfuse("demo", tmp_path, check=False)
    assert done.returncode == 1
    assert str(tmp_path / "data") in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert os.listdir(tmp_path / "data") == ["precious"]


@pytest.mark.parametrize("below", ["file", "file/below", "/proc/nothing"])
def test_a_demo_that_cannot_be_written_says_so(tmp_path: Path, below: str) -> None:
    (tmp_path / "file").write_bytes(b"")
    done = zarrfuse("demo", tmp_path / below, check=False)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert str(tmp_path / below) in done.stderr


def test_the_version_is_printed() -> None:
    assert zarrfuse("--version").stdout == f"zarrfuse {__version__}\n"


COMMANDS = [
    "mount",
    "unmount",
    "status",
    "config",
    "open",
    "install-units",
    "install-desktop",
    "info",
    "check",
    "index",
    "export",
    "demo",
    "doctor",
]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command: str) -> None:
    assert command in zarrfuse(command, "--help").stdout


def test_help_has_a_whole_sentence_for_each_command() -> None:
    told = zarrfuse("--help").stdout
    assert re.findall(r"^  ([a-z-]+)  ", told.partition("Commands:")[2], re.MULTILINE) == COMMANDS
    assert "..." not in told.partition("Commands:")[2]


@pytest.mark.parametrize(
    "command", ["unmount", "status", "config", "info", "check", "index", "demo"]
)
def test_an_empty_path_is_not_taken_for_this_folder(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = zarrfuse(command, "", check=False)
    assert done.returncode == 2
    assert "must not be empty" in done.stderr
    assert os.listdir(tmp_path) == []


def test_a_node_that_is_not_loaded_is_told_of_once(source: Path) -> None:
    done = zarrfuse("info", source)
    assert done.stderr == ""
    assert done.stdout.count("torn/zarr.json") == 1


@pytest.fixture
def buffered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs write what they print when it is much, or when they end."""
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)


@pytest.mark.usefixtures("buffered")
@pytest.mark.parametrize("arguments", [["--help"], ["doctor"], ["info"], ["info", "--json"]])
def test_a_reader_that_has_gone_ends_a_command_in_silence(
    arguments: list[str], source: Path
) -> None:
    command, *options = arguments
    paths = [source] if command == "info" else []
    end, output = os.pipe()
    os.close(end)
    done = subprocess.run(
        [*COMMAND, command, *paths, *options], stdout=output, stderr=subprocess.PIPE, check=False
    )
    os.close(output)
    assert (done.returncode, done.stderr) == (1, b"")


@pytest.mark.usefixtures("buffered")
@pytest.mark.parametrize("command", ["info", "check"])
def test_output_that_cannot_be_written_is_a_failure_in_one_line(command: str, source: Path) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*COMMAND, command, source], stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert done.returncode == 1
    assert done.stderr.count(b"No space left on device") == 1
    assert b"Exception" not in done.stderr
