"""64 GiB of which three chunks are stored: opened and paged through as if they were there.

Nothing is timed. What the programs and the daemon may take of memory is bounded.
"""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from builders.mounts import Daemon
from desktop import THUMBNAIL, Desktop
from image_datasets import LARGE_SHAPE, LARGE_STORED, ImageDatasets

Macro = Callable[[str, Path], list[str]]

CACHE_MIB = 32
DAEMON_MIB = CACHE_MIB + 200
READER_MIB = 256
"""What a program may take: Python, its libraries, and some planes of 32 MiB. A mapped file counts."""

PAGES = [0, 1, 1024, 1025, 2047]
assert {page for page, _, _ in LARGE_STORED} < set(PAGES)

MAPPED = """
import sys
import numpy as np
pixels = np.load(sys.argv[1], mmap_mode="r")
"""
MAPPED_TIFF = """
import sys
import tifffile
pixels = tifffile.memmap(sys.argv[1], mode="r")
"""
SUMS = """
print(*pixels.shape, pixels.dtype)
for page in map(int, sys.argv[2:]):
    print(int(pixels[page].sum(dtype="u8")), pixels[page, 1500, 2900], pixels[page, -1, -1])
"""
PAGED_TIFF = """
import sys
import tifffile
with tifffile.TiffFile(sys.argv[1]) as tiff:
    print(*tiff.series[0].shape, tiff.series[0].dtype)
    for page in map(int, sys.argv[2:]):
        plane = tiff.pages[page].asarray()
        print(int(plane.sum(dtype="u8")), plane[1500, 2900], plane[-1, -1])
"""

TELLS_PEAK = """
import re
print(re.search("VmHWM:[^0-9]*([0-9]+) kB", open("/proc/self/status").read())[1])
"""  # not ru_maxrss, which begins with that of the process that starts it


@pytest.fixture
def daemon(image_datasets: ImageDatasets, served: Callable[..., Daemon]) -> Iterator[Daemon]:
    """A mount with a small cache; it has to end with little memory taken."""
    daemon = served(
        image_datasets.folder / "large.zarr", "--view", "images", "--cache-size", f"{CACHE_MIB}M"
    )
    yield daemon
    status = Path(f"/proc/{daemon.process.pid}/status").read_text()
    (peak,) = (line for line in status.splitlines() if line.startswith("VmHWM:"))
    assert int(peak.split()[1]) < DAEMON_MIB * 1024


def run_bounded(program: str, *arguments: str | Path) -> str:
    """What a program prints that must succeed and take less than `READER_MIB` of memory."""
    command = [sys.executable, "-c", program + TELLS_PEAK, *arguments]
    found = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    printed, _, peak_kib = found.stdout.rstrip().rpartition("\n")
    assert int(peak_kib) < READER_MIB * 1024
    return printed


@pytest.mark.parametrize(
    ("name", "program"),
    [
        ("large.npy", MAPPED + SUMS),
        ("large.tiff", MAPPED_TIFF + SUMS),
        ("large.tiff", PAGED_TIFF),
    ],
    ids=["numpy-mmap", "tifffile-memmap", "tifffile-pages"],
)
def test_planes_are_read_in_little_memory(
    name: str, program: str, image_datasets: ImageDatasets, daemon: Daemon
) -> None:
    file = daemon.mountpoint / name
    assert file.stat().st_size > 64 << 30

    size, *planes = run_bounded(program, file, *map(str, PAGES)).splitlines()

    assert size == " ".join(map(str, LARGE_SHAPE)) + " uint16"
    expected = map(image_datasets.large_plane, PAGES)
    assert [[int(word) for word in line.split()] for line in planes] == [
        [plane.sum(dtype="u8"), plane[1500, 2900], plane[-1, -1]] for plane in expected
    ]


def test_imagej_pages_through_the_array_without_plug_ins(
    image_datasets: ImageDatasets, daemon: Daemon, macro: Macro
) -> None:
    """A NPY file is raw pixels behind a header of 4,096 bytes: a virtual stack to `Import > Raw`."""
    file = daemon.mountpoint / "large.npy"
    depth, height, width = LARGE_SHAPE
    assert file.stat().st_size == 4096 + depth * height * width * 2
    text = f"""
        run("Raw...", "open=[" + getArgument() + "] image=[16-bit Unsigned] width={width}"
            + " height={height} offset=4096 number={depth} gap=0 little-endian use");
        print(nSlices, bitDepth(), is("Virtual Stack"));
    """
    for page in PAGES:
        text += f"setSlice({page + 1}); getRawStatistics(n, mean, low, high); print(mean, high);\n"

    size, *planes = macro(text, file)

    assert size == f"{depth} 16 1"
    expected = map(image_datasets.large_plane, PAGES)
    assert [[float(word) for word in line.split()] for line in planes] == [
        [pytest.approx(plane.mean(), abs=1e-3), plane.max()] for plane in expected
    ]


@pytest.mark.parametrize("formats", ["png,npy", "png,npy,tiff"])
def test_file_manager_shows_its_picture(
    formats: str,
    image_datasets: ImageDatasets,
    served: Callable[..., Daemon],
    desktop: Desktop,
    artifacts: Path,
) -> None:
    """The picture is the middle plane. GdkPixbuf's thumbnailer reads 2 GiB of the TIFF as well."""
    source = image_datasets.folder / "large.zarr"
    daemon = served(source, "--view", "images", "--formats", formats)
    desktop.start("pcmanfm", daemon.mountpoint)
    desktop.place(desktop.wait_for_window(f"^{daemon.mountpoint.name}$"), 100, 60, 900, 560)
    plane = image_datasets.large_plane(1024)
    step = len(plane) // THUMBNAIL
    thumbnail = plane.reshape(THUMBNAIL, step, THUMBNAIL, step).mean(axis=(1, 3)) / 256
    desktop.wait_for_picture(thumbnail, artifacts / "pcmanfm-large.png", likeness=0.97)

    status = daemon.status()

    assert status["errors"] == {}
    if "tiff" not in formats:
        assert status["bytes_read"] < 4 << 20
