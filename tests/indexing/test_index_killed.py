"""`zarrfuse index`, killed: what is there reads right or not at all, and a second run ends the work."""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import zarr
from builders.mounts import COMMAND, ENVIRONMENT, Process, start, wait_for
from builders.mounts import zarrfuse as zarrfuse_command
from sampling import Sample
from tiff_folders import SHAPE, pixels, same_tree, tree, write_series, write_tiff

import zarrfuse

pytestmark = pytest.mark.timeout(1200)  # 50 kills of one test, with --thorough

COUNT = 100
KILLS = 50
TAKES_S = 0.1
"""To write the dataset takes about so long."""
MISSING = np.zeros(SHAPE, "uint16")


def run(folder: Path, *options: str) -> None:
    zarrfuse_command("index", folder, "--jobs", "1", *options)


def killed(folder: Path, number: int, sample: Sample, *options: str) -> None:
    """Run, and kill it at any moment after it began to write; it may have ended before.

    With two processes every fourth time: these take a second to start.
    """
    plan = folder.with_name("scan.zarr") / ".zarrfuse/index/plan"
    process: Process
    if number % 4 == 1:
        process = subprocess.Popen(
            [*COMMAND, "index", str(folder), "--jobs", "2", *options],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=ENVIRONMENT,
            start_new_session=True,
        )
    else:
        process = start(["index", folder, "--jobs", "1", *options], folder.with_name("log"))
    wait_for(lambda: plan.exists() or process.poll() is not None)
    time.sleep(sample.chance.uniform(0, TAKES_S))
    if isinstance(process, subprocess.Popen):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    process.wait(30)


def check(folder: Path, right: Callable[[int], list[np.ndarray]]) -> None:
    """Fails if a chunk of the dataset holds anything but what is `right` for its number."""
    out = folder.with_name("scan.zarr")
    if not (out / "zarr.json").exists():
        return
    array = zarr.open_array(zarrfuse.open_store(out), mode="r")
    try:
        whole = list(np.asarray(array[...]))
    except OSError:
        whole = [chunk(array, number) for number in range(array.shape[0])]
    for number, found in enumerate(whole):
        if found is None:
            continue
        assert any((found == one).all() for one in right(number)), number


def kills(sample: Sample) -> range:
    """The numbers of the kills; without --thorough one, with two processes sometimes."""
    first = sample.chance.randrange(4)
    return range(first, first + sample.count(KILLS, default=1))


def chunk(array: zarr.Array, number: int) -> np.ndarray | None:
    try:
        return np.asarray(array[number])
    except OSError:
        return None


def originals(folder: Path, out: Path) -> None:
    """Fails unless every file is in the folder, or in the dataset."""
    for number in range(COUNT):
        name = f"t{number:03}.tif"
        assert (folder / name).exists() or (out / f"c/{number}/0/0.tif").exists(), name


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("killed") / "scan"
    write_series(folder, COUNT)
    return folder


def copied(made: Path, to: Path) -> Path:
    """A folder of its own, with the times of the files, which the trees to be compared have."""
    shutil.copytree(made, to / "scan")
    return to / "scan"


@pytest.mark.parametrize("way", ["--link", "--copy", "--move"])
def test_a_new_dataset(made: Path, tmp_path: Path, sample: Sample, way: str) -> None:
    (tmp_path / "whole").mkdir()
    whole = copied(made, tmp_path / "whole")
    run(whole, way)
    wanted = tree(whole.with_name("scan.zarr"))
    for number in kills(sample):
        own = tmp_path / str(number)
        own.mkdir()
        folder = copied(made, own)
        killed(folder, number, sample, way)
        check(folder, lambda at: [pixels(at)])
        originals(folder, own / "scan.zarr")
        run(folder, way)
        same_tree(tree(own / "scan.zarr"), wanted)
        assert len(list(folder.iterdir())) == (0 if way == "--move" else COUNT)
        check(folder, lambda at: [pixels(at)])
        shutil.rmtree(own)


def grown_and_replaced(folder: Path) -> None:
    for number in range(0, COUNT, 2):
        write_tiff(folder / f"t{number:03}.tif", pixels(number + 1000))
    write_series(folder, 20, begin=COUNT)
    for number in range(1, 40, 4):
        (folder / f"t{number:03}.tif").unlink()


def written_otherwise(folder: Path) -> None:
    for number in range(COUNT):
        write_tiff(folder / f"t{number:03}.tif", pixels(number + 1000), compression="zlib")


def right_after(change: Callable[[Path], None]) -> Callable[[int], list[np.ndarray]]:
    def right(at: int) -> list[np.ndarray]:
        missing = [MISSING] if change is grown_and_replaced and at < 40 and at % 4 == 1 else []
        return [pixels(at), pixels(at + 1000), *missing]

    return right


@pytest.mark.parametrize("change", [grown_and_replaced, written_otherwise])
@pytest.mark.parametrize("way", ["--link", "--copy"])
def test_a_dataset_whose_files_changed(
    made: Path, tmp_path: Path, sample: Sample, way: str, change: Callable[[Path], None]
) -> None:
    begun = tmp_path / "begun"
    begun.mkdir()
    run(copied(made, begun), way)
    before = begun / "scan.zarr"
    change(begun / "scan")
    (tmp_path / "fresh").mkdir()
    fresh = copied(begun / "scan", tmp_path / "fresh")
    run(fresh, way)
    wanted = tree(fresh.with_name("scan.zarr"))
    for number in kills(sample):
        own = tmp_path / str(number)
        own.mkdir()
        folder = copied(begun / "scan", own)
        shutil.copytree(before, own / "scan.zarr")
        killed(folder, number, sample, way, "--delete")
        check(folder, right_after(change))
        run(folder, way, "--delete")
        same_tree(tree(own / "scan.zarr"), wanted)
        check(folder, right_after(change))
        shutil.rmtree(own)


def test_files_that_are_moved_in_addition(made: Path, tmp_path: Path, sample: Sample) -> None:
    begun = tmp_path / "begun"
    begun.mkdir()
    run(copied(made, begun), "--move")
    write_series(begun / "scan", 60, begin=COUNT)
    wanted: dict[str, bytes] = {}
    for number in (-1, *kills(sample)):
        own = tmp_path / str(number)
        own.mkdir()
        folder = copied(begun / "scan", own)
        shutil.copytree(begun / "scan.zarr", own / "scan.zarr")
        if number >= 0:
            killed(folder, number, sample, "--move")
        check(folder, lambda at: [pixels(at)])
        run(folder, "--move")
        wanted = wanted or tree(own / "scan.zarr")
        same_tree(tree(own / "scan.zarr"), wanted)
        assert not list(folder.iterdir())
        shutil.rmtree(own)
    assert f"c/{COUNT + 59}/0/0.tif" in wanted


def test_killed_with_other_options_before(made: Path, tmp_path: Path, sample: Sample) -> None:
    """What the first run has left, of other keys and levels, is not in the result."""
    (tmp_path / "whole").mkdir()
    whole = copied(made, tmp_path / "whole")
    run(whole)
    wanted = tree(whole.with_name("scan.zarr"))
    for number in kills(sample):
        own = tmp_path / str(number)
        own.mkdir()
        folder = copied(made, own)
        killed(folder, number, sample, "--ngff", "--dims", "t,y,x")
        killed(folder, number, sample, "--pattern", "t{y}.tif")
        run(folder)
        same_tree(tree(own / "scan.zarr"), wanted)
        shutil.rmtree(own)
