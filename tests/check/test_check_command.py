"""`zarrfuse check` as a person or a program runs it: exit codes, output, progress, Ctrl-C."""

import json
import os
import pty
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from builders.documents import array, group
from builders.folders import write_keys
from builders.mounts import COMMAND, wait_for, zarrfuse

from zarrfuse.check.run import run
from zarrfuse.check.walk import Event, FoundNode, Walk
from zarrfuse.errors import Stale

CHECK = (*COMMAND, "check")


@pytest.fixture
def wrong(tmp_path: Path) -> Path:
    """A dataset with an error and a warning."""
    keys = {"zarr.json": group(), "a/zarr.json": array(), "a/c/0/0": b"123", "a/c/0/9": b"1234"}
    write_keys(tmp_path / "wrong", keys)
    return tmp_path / "wrong"


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """A sparse chunk that takes a while to read; 256 GiB of zeros."""
    side = 1 << 19
    write_keys(tmp_path / "large", {"zarr.json": array((side, side), (side, side))})
    (tmp_path / "large/c/0").mkdir(parents=True)
    with (tmp_path / "large/c/0/0").open("wb") as chunk:
        chunk.truncate(side * side)
    return tmp_path / "large"


def test_a_clean_dataset_exits_with_0_and_prints_no_finding(demo: Path) -> None:
    done = zarrfuse("check", demo)
    assert done.stdout == ""
    assert done.stderr == "zarrfuse: nothing is wrong (6 nodes, 30 chunks)\n"
    assert " MB read)" in zarrfuse("check", demo, "--deep").stderr


def test_findings_are_a_line_each_and_exit_with_1(wrong: Path) -> None:
    done = zarrfuse("check", wrong, check=False)
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        "error: a/c/0/0: has 3 bytes, and its codecs make 4 "
        "[Zarr v3 core specification, Chunk encoding]",
        "warning: a/c/0/9: lies outside the grid of 2x2 chunks "
        "[Zarr v3 core specification, Array metadata, chunk_grid]",
    ]
    assert "1 error, 1 warning (2 nodes" in done.stderr


def test_a_warning_alone_exits_with_1(wrong: Path) -> None:
    (wrong / "a/c/0/0").unlink()
    assert zarrfuse("check", wrong, check=False).returncode == 1


def test_json_is_one_document(wrong: Path, demo: Path) -> None:
    done = zarrfuse("check", wrong, "--json", check=False)
    assert done.returncode == 1
    assert done.stderr == ""
    document = json.loads(done.stdout)
    assert document["source"] == str(wrong)
    assert document["findings"][0] == {
        "level": "error",
        "node": "a",
        "file": "c/0/0",
        "member": "",
        "problem": "has 3 bytes, and its codecs make 4",
        "rule": {"document": "Zarr v3 core specification", "section": "Chunk encoding"},
    }
    assert (document["errors"], document["warnings"], document["complete"]) == (1, 1, True)
    clean = json.loads(zarrfuse("check", demo, "--json", "--deep").stdout)
    assert clean["findings"] == []
    assert clean["bytes_read"] == clean["chunk_bytes"] > 0


@pytest.mark.parametrize("name", ["missing", "file.txt", "damaged.zip", "empty"])
def test_what_cannot_be_looked_at_exits_with_2(tmp_path: Path, name: str) -> None:
    (tmp_path / "file.txt").write_text("")
    (tmp_path / "damaged.zip").write_text("PK")
    (tmp_path / "empty").mkdir()
    done = zarrfuse("check", tmp_path / name, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("zarrfuse: ")
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


def test_the_plain_view_of_a_dataset_is_clean_and_the_chunks_view_is_not_looked_at(
    demo: Path, mounted: Callable[..., Path]
) -> None:
    zarrfuse("check", "--deep", mounted(demo, "--view", "plain"))
    zarrfuse("check", "--deep", mounted(demo, "--view", "raw"))
    everything = mounted(demo, "--view", "all")
    zarrfuse("check", everything / "plain")
    for merged in (everything, everything / "chunks", mounted(demo) / "cells.zarr"):
        done = zarrfuse("check", merged, check=False)
        assert done.returncode == 2
        assert f"check {demo}" in done.stderr


def test_mounts_below_the_source_are_left_out(
    demo: Path, tmp_path: Path, mounted: Callable[..., Path]
) -> None:
    write_keys(tmp_path / "data", {"zarr.json": array(), "c/0/0": b"1234"})
    points = [mounted(demo), mounted(demo, "--view", "plain")]
    done = zarrfuse("check", tmp_path)
    assert done.stderr.splitlines() == [
        *(f"zarrfuse: {point} is a mount of {demo}, and is left out" for point in points),
        "zarrfuse: nothing is wrong (1 node, 1 chunk)",
    ]


@pytest.mark.parametrize("options", [(), ("--json",), ("--deep",)])
def test_a_source_that_can_no_longer_be_listed_exits_with_2(
    wrong: Path, options: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    walked: list[Walk] = []

    def events(walk: Walk) -> Iterator[Event]:
        walked.append(walk)
        if "--deep" not in options or len(walked) == 2:
            yield FoundNode("")
            raise Stale("the folder is gone")
        yield from whole(walk)

    whole = Walk.events
    (wrong / "a/c/0/1").write_bytes(b"1234")  # for --deep to read
    monkeypatch.setattr(Walk, "events", events)
    code = run(str(wrong), deep="--deep" in options, as_json="--json" in options)
    assert code == 2
    assert "zarrfuse: the folder is gone\n" in capsys.readouterr().err


@pytest.mark.parametrize("path", ["a/c/0/0", "a/c/0", "a/c", "a/zarr.json"])
def test_a_path_inside_a_node_is_told_where_to_look(wrong: Path, path: str) -> None:
    done = zarrfuse("check", wrong / path, check=False)
    assert done.returncode == 2
    assert done.stderr.endswith(f"; check {wrong / 'a'}, which it is in\n")


@pytest.mark.parametrize("arguments", [(), ("",), ("a", "b"), ("a", "--shallow")])
def test_wrong_arguments_exit_with_2(arguments: tuple[str, ...]) -> None:
    done = zarrfuse("check", *arguments, check=False)
    assert done.returncode == 2
    assert "Error: " in done.stderr


def test_the_shallow_check_opens_no_chunk(tmp_path: Path) -> None:
    write_keys(tmp_path, {"zarr.json": array(), "c/0/0": b"1234"})
    (tmp_path / "c/0/0").chmod(0)
    os.utime(tmp_path / "c/0/0", (0, 0))
    zarrfuse("check", tmp_path)
    assert (tmp_path / "c/0/0").stat().st_atime == 0
    (tmp_path / "c/0/0").chmod(0o600)


def on_a_terminal(large: Path, *options: str) -> tuple[int, str]:
    """(exit code, what a terminal shows) of a check that is interrupted once it shows progress."""
    terminal, end = pty.openpty()
    process = subprocess.Popen(
        [*CHECK, large, "--deep", *options],
        stdout=subprocess.DEVNULL,
        stderr=end,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "120"},
    )
    os.close(end)
    shown = b""
    try:
        while not re.search(rb"[GM]B/s.*\d:\d\d:\d\d", shown):
            shown += os.read(terminal, 4096)
        process.send_signal(signal.SIGINT)
        while True:
            try:
                more = os.read(terminal, 4096)
            except OSError:  # nobody has the other end any more
                break
            shown += more
    finally:
        process.kill()
        os.close(terminal)
    return process.wait(10), shown.decode()


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Programs that are started can be interrupted, also where the tests run in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_a_terminal_shows_rate_and_time_left_and_ctrl_c_ends_it_cleanly(large: Path) -> None:
    code, shown = on_a_terminal(large)
    assert code == 130
    assert "reading chunks" in shown
    assert "274.9 GB" in shown
    assert "interrupted; until then nothing is wrong" in shown
    assert re.search(r"\d\.\d [MG]B read", shown)
    assert "Traceback" not in shown


def test_json_on_a_terminal_has_nothing_between_its_lines(tmp_path: Path) -> None:
    keys = {"zarr.json": array(codecs=["bytes", "crc32c"]), "c/0/0": b"12345678"}
    write_keys(tmp_path, keys)
    terminal, end = pty.openpty()
    process = subprocess.Popen([*CHECK, tmp_path, "--deep", "--json"], stdout=end, stderr=end)
    os.close(end)
    shown = b""
    try:
        while True:
            shown += os.read(terminal, 4096)
    except OSError:  # nobody has the other end any more
        os.close(terminal)
    assert process.wait(10) == 1
    [finding] = json.loads(shown)["findings"]
    assert finding["file"] == "c/0/0"


@pytest.mark.usefixtures("interruptible")
def test_nothing_moves_where_there_is_no_terminal_and_ctrl_c_leaves_whole_json(
    large: Path,
) -> None:
    process = subprocess.Popen(
        [*CHECK, large, "--deep", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    counters = Path(f"/proc/{process.pid}/io")
    wait_for(lambda: int(re.findall(r"rchar: (\d+)", counters.read_text())[0]) > 50 << 20)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=10)
    assert process.returncode == 130
    assert errors == b""
    assert json.loads(output)["complete"] is False


def test_a_reader_that_goes_away_ends_it(tmp_path: Path) -> None:
    keys = {f"c/0/x{number}": b"" for number in range(5000)}
    write_keys(tmp_path, {"zarr.json": array(), **keys})
    process = subprocess.Popen([*CHECK, tmp_path], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline().startswith(b"warning: ")
    process.stdout.close()
    assert process.wait(10) == 1
    assert process.stderr is not None
    assert b"Traceback" not in process.stderr.read()
