"""The command `zarrfuse index`: messages, exit codes, questions, Ctrl-C; and `zarrfuse.index` of Python."""

import os
import pty
import re
import signal
import subprocess
from pathlib import Path

import numpy as np
import pytest
from builders.mounts import COMMAND, ENVIRONMENT, wait_for
from builders.mounts import zarrfuse as command
from builders.processes import no_process_left, peak_bytes
from sampling import Sample
from tiff_folders import pixels, read, write_series

import zarrfuse
from zarrfuse.errors import JobsFailed, ZarrfuseError

__all__ = ["no_process_left"]


def test_what_the_command_says(tmp_path: Path) -> None:
    write_series(tmp_path / "a", 3)
    (tmp_path / "a/other.h5").write_text("no TIFF")
    done = command("index", tmp_path / "a", "--dry-run")
    assert "would be an array (t=3, y=16, x=32), uint16, of 3 files, " in done.stderr
    assert not (tmp_path / "a.zarr").exists()
    done = command("index", tmp_path / "a", "--jobs", "2")  # not a terminal: nothing is asked
    assert "3 files with the names t{t}.tif" in done.stderr
    assert "t: 0, 1, 2 (3)" in done.stderr
    assert "left out: 1 with other names, such as other.h5" in done.stderr
    assert "is an array (t=3, y=16, x=32), uint16, of 3 files" in done.stderr
    again = command("index", tmp_path / "a").stderr
    assert re.search(r"of 3 files, .* kB; no file is new or has changed", again)
    assert "of 3 files" in command("index", tmp_path / "a", "--move").stderr
    assert not list((tmp_path / "a").glob("*.tif"))
    assert "of the files that it had" in command("index", tmp_path / "a", "--move").stderr
    assert "--pattern" in command("index", "--help").stdout


@pytest.mark.parametrize(
    "options, code, said",
    [
        (["--link", "--copy"], 2, "only one of --link, --copy and --move"),
        (["--pattern", "{t.tif"], 1, "the pattern {t.tif"),
        (["--dims", "a,b"], 1, "--dims a,b lacks the field t"),
        (["--jobs", "0"], 2, "--jobs"),
        (["--out", "http://127.0.0.1:1/a"], 1, "http://127.0.0.1:1/a cannot be written"),
        (["--scheduler", "nonsense://x"], 1, "the Dask scheduler nonsense://x cannot be used"),
    ],
)
def test_what_is_refused_writes_nothing(
    tmp_path: Path, options: list[str], code: int, said: str
) -> None:
    write_series(tmp_path / "a", 2)
    done = command("index", tmp_path / "a", *options, check=False)
    assert done.returncode == code
    assert said in " ".join(done.stderr.replace("│", " ").split())
    assert "Traceback" not in done.stderr
    assert os.listdir(tmp_path) == ["a"]


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    done = command("index", tmp_path / "no", check=False)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert f"{tmp_path}/no does not exist" in done.stderr


@pytest.mark.parametrize("answer, code", [("n", 1), ("", 0), ("y", 0)])
def test_on_a_terminal_it_asks_whether_the_names_were_understood(
    tmp_path: Path, answer: str, code: int
) -> None:
    write_series(tmp_path / "a", 2)
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, "index", str(tmp_path / "a"), "--jobs", "1"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=ENVIRONMENT,
    )
    os.close(theirs)
    said = b""
    while b"[Y/n]" not in said:
        said += os.read(ours, 1000)
    os.write(ours, f"{answer}\n".encode())
    try:
        while True:
            said += os.read(ours, 1000)
    except OSError:  # the end of a terminal
        pass
    os.close(ours)
    assert process.wait(30) == code, said
    assert (tmp_path / "a.zarr").exists() == (code == 0)


def test_ctrl_c_ends_it_with_one_line_and_no_process_is_left(tmp_path: Path) -> None:
    write_series(tmp_path / "a", 300)
    log = tmp_path / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*COMMAND, "index", str(tmp_path / "a"), "--jobs", "2"],
            stdin=subprocess.DEVNULL,
            stderr=output,
            env=ENVIRONMENT,
            start_new_session=True,
        )
    wait_for((tmp_path / "a.zarr/.zarrfuse/index/plan").exists)
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(30) == 130
    said = log.read_text().splitlines()
    assert said[-1] == "zarrfuse: interrupted; the same command goes on"
    assert "Traceback" not in log.read_text()
    assert len(said) <= 5, said  # three of what was found
    wait_for(lambda: not _group(process.pid))
    command("index", tmp_path / "a", "--jobs", "1")
    assert read(tmp_path / "a.zarr").shape == (300, 16, 32)


def _group(number: int) -> list[str]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            fields = (process / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == number and fields[0] != "Z":
            found.append(process.name)
    return found


def test_from_python(tmp_path: Path) -> None:
    write_series(tmp_path / "a", 3)
    out = zarrfuse.index(tmp_path / "a", jobs=1)
    assert out == str(tmp_path / "a.zarr")
    assert (read(out) == np.stack([pixels(n) for n in range(3)])).all()
    assert zarrfuse.index(tmp_path / "a", tmp_path / "b", dims=["t", "x", "y"], way="copy", jobs=2)
    assert read(tmp_path / "b").shape == (3, 32, 16)
    with pytest.raises(ZarrfuseError, match="no file has a name like"):
        zarrfuse.index(tmp_path / "a", pattern="q{t}.tif")
    with pytest.raises(JobsFailed, match="cannot be used"):
        zarrfuse.index(tmp_path / "a", scheduler="nonsense://x")


def test_many_files_take_little_memory(tmp_path: Path, sample: Sample) -> None:
    """Links of one file: headers are kept on the disk."""
    write_series(tmp_path / "a", 1)
    for number in range(1, sample.count(20_000, default=1_000)):
        os.link(tmp_path / "a/t000.tif", tmp_path / f"a/t{number}.tif")
    process = subprocess.Popen(
        [*COMMAND, "index", str(tmp_path / "a"), "--dry-run", "--jobs", "1"],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=ENVIRONMENT,
    )
    most = 0
    while process.poll() is None:
        most = max(most, peak_bytes(process.pid))
    assert process.returncode == 0
    assert most < 200 << 20
