"""An export that is killed leaves no array, and the same command goes on to the same files."""

import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from builders.folders import files_below
from builders.mounts import COMMAND, wait_for
from exports import assert_exported, pixels, stored, tiffs
from sampling import Sample
from zarr.codecs import GzipCodec

import zarrfuse
from zarrfuse.errors import ZarrfuseError
from zarrfuse.exporting import folder as folders

DATA = pixels((40, 64, 96))
HOW: dict[str, Any] = {"chunks": (1, 32, 32), "shards": (1, 64, 64), "compressors": GzipCodec()}


def killed_after(count: int, array: Path, folder: Path, signal_: int) -> None:
    """Kill an export when so many files are there, or let it end."""
    command = [*map(str, (*COMMAND, "export", array, folder))]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as export:
        wait_for(lambda: export.poll() is not None or len(tiffs(folder)) >= count)
        export.send_signal(signal_)


def test_a_killed_export_goes_on(tmp_path: Path, sample: Sample) -> None:
    stored(tmp_path / "a", DATA, **HOW)
    zarrfuse.export(tmp_path / "a", tmp_path / "whole")
    expected = files_below(tmp_path / "whole")
    for number in range(sample.count(20, default=2)):
        folder = tmp_path / f"out{number}"
        for signal_ in (signal.SIGKILL, signal.SIGINT):
            count = sample.chance.randrange(len(expected) // 2)
            killed_after(count, tmp_path / "a", folder, signal_)
            assert (folder / "zarr.json").exists() <= (len(tiffs(folder)) == len(expected) // 2)
        if not (folder / "zarr.json").exists():
            zarrfuse.export(tmp_path / "a", folder)
        assert files_below(folder) == expected


def test_complete_files_are_not_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupt(tmp_path, monkeypatch, lambda key: key == "zarr.json")
    times = {path: path.stat().st_mtime_ns for path in tiffs(tmp_path / "out").values()}
    assert len(times) == 4
    zarrfuse.export(tmp_path / "a", tmp_path / "out")
    assert {path: path.stat().st_mtime_ns for path in times} == times


@pytest.mark.parametrize(
    "damage", ["no index", "short index", "short file", "no file", "bad index"]
)
def test_files_that_are_not_whole_are_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    interrupt(tmp_path, monkeypatch, lambda key: key == "zarr.json")
    path = tiffs(tmp_path / "out")[1, 1]
    broken = path if "file" in damage else Path(f"{path}.index")
    if damage.startswith("no"):
        broken.unlink()
    elif damage == "bad index":
        broken.write_bytes(bytes(len(broken.read_bytes())))
    else:
        broken.write_bytes(broken.read_bytes()[:-1])
    zarrfuse.export(tmp_path / "a", tmp_path / "out")
    assert_exported(tmp_path / "out", pixels((128, 128)), (64, 64))


def test_another_export_does_not_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupt(tmp_path, monkeypatch, lambda key: key == "zarr.json")
    with pytest.raises(ZarrfuseError, match="unfinished export of another array"):
        zarrfuse.export(tmp_path / "a", tmp_path / "out", compression="none")


def test_the_array_of_an_unfinished_export_is_known_by_its_real_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupt(tmp_path, monkeypatch, lambda key: key == "zarr.json")
    (tmp_path / "other").mkdir()
    stored(tmp_path / "other/a", pixels((128, 128), seed=1), chunks=(32, 32), shards=(64, 64))
    monkeypatch.chdir(tmp_path / "other")
    with pytest.raises(ZarrfuseError, match="unfinished export of another array"):
        zarrfuse.export("a", tmp_path / "out")
    monkeypatch.chdir(tmp_path)
    zarrfuse.export("a", "out")
    assert_exported(tmp_path / "out", pixels((128, 128)), (64, 64))


def test_two_processes_do_not_write_one_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner: list[str] = []

    def again(key: str) -> bool:
        if not inner:
            inner.append(key)
            with pytest.raises(ZarrfuseError, match="another process is exporting"):
                zarrfuse.export(tmp_path / "a", tmp_path / "out")
        return key == "zarr.json"

    interrupt(tmp_path, monkeypatch, again)
    assert inner


def interrupt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_last: Callable[[str], bool]
) -> None:
    """Export an array of four files until the file for which `is_last` is true."""
    if not (tmp_path / "a").exists():
        stored(tmp_path / "a", pixels((128, 128)), chunks=(32, 32), shards=(64, 64))
    new_file = folders.ExportFolder.new_file

    def failing(self: folders.ExportFolder, key: str) -> Any:
        if is_last(key):
            raise KeyboardInterrupt
        return new_file(self, key)

    with monkeypatch.context() as patch:
        patch.setattr(folders.ExportFolder, "new_file", failing)
        with pytest.raises(KeyboardInterrupt):
            zarrfuse.export(tmp_path / "a", tmp_path / "out")
    assert not (tmp_path / "out/zarr.json").exists()
