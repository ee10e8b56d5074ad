"""The tree that `zarrfuse info` prints."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from builders.documents import array, group
from builders.folders import write_keys
from builders.mounts import COMMAND, Daemon, zarrfuse

ARRAY = "array (Zarr v3), shape 4x4, uint8, chunks 2x2, keys c/0/0"
GROUP = "group (Zarr v3)"


@pytest.fixture
def nested(tmp_path: Path) -> Path:
    """Groups in groups, the last of a folder and not."""
    root = tmp_path / "nested"
    documents = {"": group(), "a": group(), "a/x": group(), "a/x/deep": array()}
    documents |= {"a/y": array(), "b": array(), "c": group(), "c/only": array()}
    write_keys(root, {f"{path}/zarr.json".lstrip("/"): data for path, data in documents.items()})
    return root


def printed(source: Path, encoding: str) -> list[str]:
    """The lines of `zarrfuse info`, with an output of this encoding."""
    done = subprocess.run(
        [*COMMAND, "info", source],
        check=True,
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": encoding},
    )
    return done.stdout.decode(encoding).splitlines()


def test_each_node_is_a_line_below_the_one_it_is_in(nested: Path) -> None:
    assert printed(nested, "utf-8") == [
        f"{nested}  {GROUP}",
        f"├── a  {GROUP}",
        f"│   ├── x  {GROUP}",
        f"│   │   └── deep  {ARRAY}",
        f"│   └── y  {ARRAY}",
        f"├── b  {ARRAY}",
        f"└── c  {GROUP}",
        f"    └── only  {ARRAY}",
    ]


def test_folders_without_a_node_are_left_out(
    nested: Path, served: Callable[..., Daemon], tmp_path: Path
) -> None:
    tree = printed(nested, "utf-8")
    for path in ("0/notes.txt", "a/logs/deep/er/log.txt", "c/z/notes.txt", "z/z/notes.txt"):
        write_keys(nested, {path: b""})
    assert printed(nested, "utf-8") == tree
    assert printed(served(nested).mountpoint, "utf-8")[1:] == tree[1:]
    write_keys(tmp_path / "mixed", {"x/zarr.json": array(), "notes/1.txt": b"", "y/2.txt": b""})
    assert printed(tmp_path / "mixed", "utf-8") == [f"{tmp_path / 'mixed'}", f"└── x  {ARRAY}"]


def test_a_folder_that_leads_to_a_node_is_a_line(tmp_path: Path) -> None:
    write_keys(tmp_path, {"runs/notes/1.txt": b"", "runs/one/zarr.json": array()})
    assert printed(tmp_path, "utf-8")[1:] == ["└── runs", f"    └── one  {ARRAY}"]


def test_raw_has_no_nodes_and_shows_its_folders(nested: Path, mounted: Callable[..., Path]) -> None:
    lines = printed(mounted(nested, "--view", "raw"), "utf-8")
    assert [line.strip() for line in lines[1:4]] == ["├── a", "│   ├── x", "│   │   └── deep"]


def test_an_output_that_is_not_unicode_gets_plain_letters(nested: Path) -> None:
    lines = printed(nested, "latin-1")
    assert lines[1:5] == [
        f"+-- a  {GROUP}",
        f"|   +-- x  {GROUP}",
        f"|   |   `-- deep  {ARRAY}",
        f"|   `-- y  {ARRAY}",
    ]


@pytest.mark.parametrize(
    ("name", "shown"),
    [("a\nb", "a\\nb"), ("\x1b[2Jclear", "\\x1b[2Jclear"), (os.fsdecode(b"\xff"), "\\udcff")],
)
def test_a_name_neither_breaks_a_line_nor_commands_the_terminal(
    tmp_path: Path, name: str, shown: str
) -> None:
    root = tmp_path / "names"
    write_keys(root, {"zarr.json": group(), f"{name}/zarr.json": array()})
    assert printed(root, "utf-8")[1:] == [f"└── {shown}  {ARRAY}"]


@pytest.mark.parametrize(
    ("name", "shown"), [("\x1b[2Jclear", "\\x1b[2Jclear"), (os.fsdecode(b"\xff"), "\\udcff")]
)
def test_nor_does_it_where_one_file_of_a_mount_is_told_of(
    tmp_path: Path, mounted: Callable[..., Path], name: str, shown: str
) -> None:
    root = tmp_path / "names"
    write_keys(root, {f"{name}/zarr.json": array(), f"{name}/c/0/0": b"1234"})
    point = mounted(root)
    lines = printed(point / name / "c/0/0", "utf-8")
    assert [line.split()[1] for line in lines if line.startswith("path ")] == [f"{shown}/c/0/0"]


def test_brackets_are_no_markup_and_nothing_is_cut(tmp_path: Path) -> None:
    root = tmp_path / "long"
    name = f"[bold]{'n' * 200}[red]:smile:"
    write_keys(root, {"zarr.json": group(), f"{name}/zarr.json": array()})
    assert zarrfuse("info", root).stdout.splitlines()[1] == f"└── {name}  {ARRAY}"


def started_by(change: str) -> tuple[str, ...]:
    """The command, of a zarrfuse in which something is another way."""
    run = "from zarrfuse.cli.app import main; main()"
    return (
        sys.executable,
        "-c",
        f"from zarrfuse.views import control_files as control, walk; {change}; {run}",
    )


@pytest.mark.parametrize(
    "change",
    [
        pytest.param("pass", id="all-at-once"),
        pytest.param("walk.TOLD_WITHIN_S = -1", id="one-at-a-time"),
        pytest.param("control.NODES_NAME = 'nothing'", id="by-a-daemon-that-lacks-the-file"),
    ],
)
def test_a_mount_tells_what_its_source_does(
    nested: Path, served: Callable[..., Daemon], change: str
) -> None:
    write_keys(nested, {"bad/zarr.json": b"{"})
    mountpoint = served(nested, command=started_by(change)).mountpoint
    of_source, of_mount = printed(nested, "utf-8"), printed(mountpoint, "utf-8")
    assert of_mount[1:] == of_source[1:]
    assert of_mount[0] == f"{mountpoint}  {GROUP}"
    assert "not loaded: bad/zarr.json" in "".join(of_mount)
    below = printed(mountpoint / "a", "utf-8")
    assert below[1:] == ["├── x  " + GROUP, "│   └── deep  " + ARRAY, "└── y  " + ARRAY]


def test_the_control_file_of_many_nodes_is_not_listed(
    nested: Path, served: Callable[..., Daemon]
) -> None:
    info = served(nested).mountpoint / ".zarrfuse/info"
    assert sorted(os.listdir(info)) == ["a", "b", "c", "zarr.json"]
    told = json.loads((info / "c/.nodes").read_bytes())
    assert {path: found["folders"] for path, found in told.items()} == {"c": ["only"], "c/only": []}
    assert told["c/only"]["facts"] == json.loads((info / "c/only/zarr.json").read_bytes())


def test_what_extensions_tell_is_in_the_line(tmp_path: Path) -> None:
    offset = {"name": "example.offset", "configuration": {"offset": [12, 24]}}
    write_keys(tmp_path, {"zarr.json": array(extensions=[offset])})
    [line] = zarrfuse("info", tmp_path).stdout.splitlines()
    assert line.endswith(", origin [12, 24]")
