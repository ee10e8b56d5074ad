"""Programs that know nothing of Zarr write chunks and documents: as on a disk, and never half a chunk.

The chunks are TIFF files that are stored in two parts, the first of a given size.
"""

import fcntl
import json
import mmap
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tifffile
from builders.documents import array, concat_parts, group, suffix_keys
from builders.folders import write_keys
from builders.mounts import Daemon, wait_for
from desktop import program

Mounted = Callable[..., Path]
Served = Callable[..., Daemon]

HEADER_BYTES = 256
OLD, NEW = "c/0/0.tiff", "c/1/2.tiff"
"""A chunk that is stored, and one that is not."""
NAMES = pytest.mark.parametrize("name", [OLD, NEW], ids=["over an old one", "as a new one"])


def pixels(seed: int) -> np.ndarray:
    """What is in a tile."""
    return np.random.default_rng(seed).integers(0, 256, (64, 96), np.uint8)


def write_source(source: Path, tile: bytes) -> None:
    """An array of which one chunk is stored."""
    write_keys(
        source,
        {
            "zarr.json": group(),
            "image/zarr.json": array(
                (128, 288),
                (64, 96),
                keys=suffix_keys(".tiff"),
                transformers=[concat_parts((".header", HEADER_BYTES), "")],
                codecs=[{"name": "imagecodecs_tiff"}],
                attributes={"answer": 41},
            ),
            **stored(OLD, tile),
        },
    )


def stored(name: str, tile: bytes) -> dict[str, bytes]:
    """The keys under which a chunk is stored."""
    return {
        f"image/{name}.header": tile[:HEADER_BYTES],
        f"image/{name}": tile[HEADER_BYTES:],
    }


def found(source: Path) -> dict[str, bytes]:
    """All that is stored, but for the documents and what belongs to the mount."""
    return {
        path.relative_to(source).as_posix(): path.read_bytes()
        for path in source.rglob("*")
        if path.is_file() and path.name != "zarr.json" and ".zarrfuse" not in path.parts
    }


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """The tile that is stored under `OLD`."""
    tifffile.imwrite(path := tmp_path / "old.tiff", pixels(1))
    return path


@pytest.fixture
def new(tmp_path: Path) -> Path:
    """Another tile, of another size."""
    tifffile.imwrite(path := tmp_path / "new.tiff", pixels(2), compression="zlib")
    os.utime(path, ns=(1_600_000_000_123_456_789, 1_600_000_000_123_456_789))
    return path


@pytest.fixture
def source(tmp_path: Path, old: Path) -> Path:
    """The dataset."""
    write_source(folder := tmp_path / "source", old.read_bytes())
    return folder


@pytest.fixture
def image(source: Path, mounted: Mounted) -> Path:
    """The array in the view `chunks`, read-write."""
    return mounted(source, "--view", "chunks", "--read-write") / "image"


def done(*command: str | Path, **options: object) -> "subprocess.CompletedProcess[str]":
    """Run a program, whatever comes of it."""
    return subprocess.run(
        [program(str(command[0])), *command[1:]],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "LC_ALL": "C"},
        **options,  # type: ignore[call-overload]
    )


def run(*command: str | Path, **options: object) -> str:
    """Run a program that must succeed, with nothing to complain about; what it printed."""
    ran = done(*command, **options)
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran.stdout


def _moved(new: Path, at: Path) -> None:
    run("cp", new, copy := new.with_name("copy.tiff"))
    run("mv", copy, at)


def _moved_within(new: Path, at: Path) -> None:
    run("cp", new, at.with_name("foreign name"))
    run("mv", at.with_name("foreign name"), at)


def _linked(new: Path, at: Path) -> None:
    run("cp", new, at.with_name("foreign name"))
    run("rm", "-f", at)
    run("ln", at.with_name("foreign name"), at)
    run("rm", at.with_name("foreign name"))


def _untarred(new: Path, at: Path) -> None:
    folder = new.with_name("packed")
    packed = folder / at.relative_to(at.parents[2])
    packed.parent.mkdir(parents=True, exist_ok=True)
    packed.write_bytes(new.read_bytes())
    run("tar", "-cf", new.with_name("packed.tar"), "-C", folder, packed.relative_to(folder))
    run("tar", "-xf", new.with_name("packed.tar"), "-C", at.parents[2])


WAYS: dict[str, Callable[[Path, Path], object]] = {
    "cp": lambda new, at: run("cp", new, at),
    "cp --reflink=never --sparse=always": lambda new, at: run(
        "cp", "--reflink=never", "--sparse=always", new, at
    ),
    "mv": _moved,
    "mv within": _moved_within,
    "ln": _linked,
    "install": lambda new, at: run("install", "-m", "644", new, at),
    "cat": lambda new, at: run("sh", "-c", 'cat "$0" > "$1"', new, at),
    "cat in pieces": lambda new, at: run(
        "sh", "-c", '{ head -c 300; head -c 10; cat; } < "$0" > "$1"', new, at
    ),
    "tee": lambda new, at: run("sh", "-c", 'tee "$1" < "$0" > /dev/null', new, at),
    "dd": lambda new, at: run("dd", f"if={new}", f"of={at}", "bs=700", "status=none"),
    "dd conv=fsync": lambda new, at: run(
        "dd", f"if={new}", f"of={at}", "bs=1M", "conv=fsync", "status=none"
    ),
    "rsync": lambda new, at: run("rsync", "-a", new, at),
    "rsync --inplace": lambda new, at: run("rsync", "-a", "--inplace", new, at),
    "tar": _untarred,
    "tiffcp": lambda new, at: run("sh", "-c", 'tiffcp -c none "$0" "$1" && cp "$1" "$0"', new, at),
}


@NAMES
@pytest.mark.parametrize("way", WAYS)
def test_a_chunk_is_written(
    way: str, name: str, image: Path, source: Path, old: Path, new: Path, tmp_path: Path
) -> None:
    before = old.read_bytes()
    disk = tmp_path / "disk"
    (disk / OLD).parent.mkdir(parents=True)
    (disk / OLD).write_bytes(before)
    for folder in (disk, image):
        (folder / name).parent.mkdir(exist_ok=True)
    with (disk / OLD).open("rb") as on_disk, (image / OLD).open("rb") as reader:
        for folder in (disk, image):
            WAYS[way](new, folder / name)
        tile = new.read_bytes()
        assert (image / name).read_bytes() == tile
        assert reader.read() == on_disk.read()
    expected = stored(name, tile) if name == OLD else stored(OLD, before) | stored(name, tile)
    assert found(source) == expected
    expected_names = {"0.tiff"} if name == OLD else {"2.tiff"}
    assert set(os.listdir((image / name).parent)) == expected_names
    assert "Image Width: 96 Image Length: 64" in run("tiffinfo", "-D", image / name)


@NAMES
@pytest.mark.parametrize("command", [("cp", "-p"), ("rsync", "-a"), ("rsync", "-a", "--inplace")])
def test_a_chunk_keeps_the_time_that_it_is_given(
    command: tuple[str, ...], name: str, image: Path, new: Path
) -> None:
    (image / name).parent.mkdir(exist_ok=True)
    run(*command, new, image / name)
    assert (image / name).stat().st_mtime_ns == new.stat().st_mtime_ns
    assert run("rsync", "-a", "--itemize-changes", new, image / name) == ""


@pytest.mark.parametrize("options", ["conv=notrunc", "conv=notrunc,fsync"])
def test_dd_writes_into_the_middle_of_a_chunk(
    options: str, image: Path, source: Path, old: Path
) -> None:
    changed = bytearray(old.read_bytes())
    changed[200:300] = bytes(range(100))
    (piece := old.with_name("piece")).write_bytes(changed[200:300])
    run("dd", f"if={piece}", f"of={image / OLD}", "bs=100", "seek=2", options, "status=none")
    assert (image / OLD).read_bytes() == changed
    assert found(source) == stored(OLD, bytes(changed))


@NAMES
@pytest.mark.parametrize("command", ["cp", "dd", "rsync", "mv", "cat"])
def test_bytes_that_do_not_fit_are_refused_and_the_old_chunk_stays(
    command: str, name: str, source: Path, served: Served, old: Path, tmp_path: Path
) -> None:
    daemon = served(source, "--view", "chunks", "--read-write")
    at = daemon.mountpoint / "image" / name
    at.parent.mkdir(exist_ok=True)
    other = at.with_name("foreign name")  # from another file system `mv` deletes first, and copies
    for path in (short := tmp_path / "short", other):
        path.write_bytes(b"II*\0" * 10)
    ran = {
        "cp": lambda: done("cp", short, at),
        "dd": lambda: done("dd", f"if={short}", f"of={at}", "conv=fsync", "status=none"),
        "rsync": lambda: done("rsync", "-a", short, at),
        "mv": lambda: done("mv", other, at),
        "cat": lambda: done("sh", "-c", 'cat "$0" > "$1"', short, at),
    }[command]()
    if command != "cat":  # which leaves it to the shell to close the file, and that does not ask
        assert ran.returncode != 0
        # What `mv` takes this errno for is that a folder would be moved into itself.
        assert ("cannot move" if command == "mv" else "Invalid argument") in ran.stderr
    reason = f"image: chunk {name}: a chunk of 40 bytes does not fit its parts"
    wait_for(lambda: reason in daemon.text())
    other.unlink()
    assert found(source) == stored(OLD, old.read_bytes())
    if name == OLD:
        assert at.read_bytes() == old.read_bytes()
    else:
        wait_for(lambda: not at.exists())


def test_a_chunk_is_moved_copied_and_deleted(image: Path, source: Path, old: Path) -> None:
    tile = old.read_bytes()
    run("mkdir", image / "c/1")
    run("mv", image / OLD, image / NEW)
    assert found(source) == stored(NEW, tile)
    assert not (image / OLD).exists()
    run("cp", "-a", image / NEW, image / OLD)
    assert found(source) == stored(NEW, tile) | stored(OLD, tile)
    run("rm", image / NEW)
    assert found(source) == stored(OLD, tile)
    assert done("rm", image / NEW).returncode == 1
    run("rsync", "-a", f"{image}/", image.with_name("copy"))  # files first: zarr.json, too
    assert (image.with_name("copy") / OLD).read_bytes() == tile
    assert (source / "copy" / f"{OLD}.header").read_bytes() == tile[:HEADER_BYTES]
    run("rm", "-r", image / "c")
    run("rm", "-r", image.with_name("copy"))
    assert found(source) == {}
    assert not (source / "copy").exists()


def test_tifffile_writes_a_chunk_that_others_read(image: Path, source: Path) -> None:
    (image / "c/1").mkdir()
    for name, compression in ((OLD, None), (NEW, "zlib")):
        tifffile.imwrite(image / name, pixels(3), compression=compression, tile=(16, 16))
        np.testing.assert_array_equal(tifffile.imread(image / name), pixels(3))
        assert "Tile Width: 16 Tile Length: 16" in run("tiffinfo", "-D", image / name)
        merged = b"".join((source / "image" / key).read_bytes() for key in (f"{name}.header", name))
        assert (image / name).read_bytes() == merged


def test_shared_memory_is_written_to_a_chunk(image: Path, source: Path, old: Path) -> None:
    changed = bytearray(old.read_bytes())
    with (image / OLD).open("r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
        memory[250:260] = changed[250:260] = b"0123456789"
        memory.flush()
        assert found(source) == stored(OLD, bytes(changed))
        memory[300:303] = changed[300:303] = b"abc"
    wait_for(lambda: found(source) == stored(OLD, bytes(changed)))
    with (image / OLD).open("r+b") as file:
        memory = mmap.mmap(file.fileno(), 0)
    memory[5000:5003] = changed[5000:5003] = b"xyz"
    memory.close()
    wait_for(lambda: found(source) == stored(OLD, bytes(changed)))
    assert (image / OLD).read_bytes() == changed


@pytest.mark.parametrize("name", [OLD, "notes", "zarr.json", "c"])
def test_flock_keeps_others_out(name: str, image: Path) -> None:
    (image / "notes").write_bytes(b"")
    descriptor = os.open(image / name, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        assert done("flock", "-n", image / name, "true").returncode == 1
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        run("flock", "-n", image / name, "true")
    finally:
        os.close(descriptor)


# -- editors ---------------------------------------------------------------------------------

VIM = ("vim.tiny", "-u", "NONE", "-es")
_CHANGE, _END = "+%s/: 41/: 42/", "+wq"
EDITORS: dict[str, Callable[[Path], object]] = {
    "sed -i": lambda path: run("sed", "-i", "s/: 41/: 42/", path),
    "ed": lambda path: run("sh", "-c", 'printf "%s\n" ",s/: 41/: 42/" w q | ed -s "$0"', path),
    "vim": lambda path: run(*VIM, _CHANGE, _END, path),
    "vim backupcopy=yes": lambda path: run(*VIM, "+set bk backupcopy=yes", _CHANGE, _END, path),
    "vim backupcopy=no": lambda path: run(*VIM, "+set bk backupcopy=no", _CHANGE, _END, path),
    "vim nowritebackup": lambda path: run(*VIM, "+set nowritebackup", _CHANGE, _END, path),
    "vim with fsync and swap": lambda path: run(*VIM, "+set fsync swapfile", _CHANGE, _END, path),
    "cat": lambda path: run(
        "sh", "-c", 'cp "$0" "$1" && sed "s/: 41/: 42/" "$1" > "$0"', path, path.parents[2] / "it"
    ),
}


@pytest.mark.parametrize("view", ["chunks", "plain"])
@pytest.mark.parametrize("editor", EDITORS)
def test_an_attribute_is_changed_with(
    editor: str, view: str, source: Path, mounted: Mounted, old: Path
) -> None:
    document = source / "image/zarr.json"
    document.write_text(json.dumps(json.loads(document.read_bytes()), indent=2))
    before = json.loads(document.read_bytes())
    path = mounted(source, "--view", view, "--read-write") / "image/zarr.json"
    EDITORS[editor](path)
    assert json.loads(path.read_bytes())["attributes"] == {"answer": 42}
    assert json.loads(document.read_bytes()) == {**before, "attributes": {"answer": 42}}
    names = set(os.listdir(path.parent)) - {"zarr.json~"}
    assert names == {"zarr.json", "c"}
    chunk = path.with_name("c") / "0" / ("0" if view == "plain" else "0.tiff")
    assert chunk.read_bytes() == old.read_bytes()


def test_a_document_that_contradicts_what_is_stored_is_refused(
    source: Path, served: Served
) -> None:
    document = source / "image/zarr.json"
    document.write_text(json.dumps(json.loads(document.read_bytes()), indent=2))
    before = document.read_bytes()
    daemon = served(source, "--view", "plain", "--read-write")
    path = daemon.mountpoint / "image/zarr.json"
    shown = path.read_bytes()
    ran = done("sed", "-i", 's/"uint8"/"uint16"/', path)
    assert ran.returncode != 0
    assert "Invalid argument" in ran.stderr
    assert "data_type" in daemon.text()
    assert document.read_bytes() == before
    assert path.read_bytes() == shown
