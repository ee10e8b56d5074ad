"""A mount shows the tree of its view, and every byte of it."""

import filecmp
import hashlib
import mmap
import os
import shutil
import stat
import subprocess
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from builders.documents import array, concat_parts, group, suffix_keys
from builders.folders import files_below, write_keys, zip_folder
from builders.mounts import clear, mounting, zarrfuse
from hypothesis import given, settings
from hypothesis import strategies as st
from sampling import examples

Mounted = Callable[..., Path]
Stored = Callable[..., Path]

PARTS = {
    "zstd": (".tiff", ("", ".index")),
    "raw": (".tiff", ("", ".index")),
    "strips": (".tiff", ("", ".index")),
    "header": ("", (".header", "", ".index")),
    "checksum": ("", ("", ".crc32c")),
}


def expected_tree(demo: Path) -> dict[str, bytes]:
    """The mounted demo dataset, put together by hand."""
    group = demo / "cells.zarr"
    found = {name: (demo / name).read_bytes() for name in ("README.txt", "cells.zarr/zarr.json")}
    for name, (suffix, parts) in PARTS.items():
        found[f"cells.zarr/{name}/zarr.json"] = (group / name / "zarr.json").read_bytes()
        for row in range(2):
            for column in range(3):
                key = f"c/{row}/{column}{suffix}"
                whole = b"".join((group / name / f"{key}{part}").read_bytes() for part in parts)
                found[f"cells.zarr/{name}/{key}"] = whole
    return found


@pytest.fixture(scope="module")
def shown(demo: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The demo dataset, mounted for all tests of this module."""
    with mounting(demo, tmp_path_factory.mktemp("shown")) as point:
        yield point


def run(*arguments: str | Path) -> str:
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


def test_merged_chunks_and_all_else_are_there_byte_for_byte(shown: Path, demo: Path) -> None:
    assert files_below(shown) == expected_tree(demo)


def test_sizes_and_times_are_known_without_reading(shown: Path, demo: Path) -> None:
    for path, data in expected_tree(demo).items():
        status = (shown / path).stat()
        assert status.st_size == len(data)
        assert status.st_blocks == (len(data) + 511) // 512
        assert stat.S_IMODE(status.st_mode) == 0o444
    stored = demo / "cells.zarr/zstd/c/0/1.tiff"
    newest = max(stored.stat().st_mtime_ns, Path(f"{stored}.index").stat().st_mtime_ns)
    merged = (shown / "cells.zarr/zstd/c/0/1.tiff").stat().st_mtime_ns
    assert merged // 1_000_000 == newest // 1_000_000  # below, it tells the times of all parts


@pytest.mark.parametrize(
    ("ending", "method"), [(".zip", zipfile.ZIP_DEFLATED), (".ozx", zipfile.ZIP_STORED)]
)
def test_a_zip_mounts_as_the_folder_does(
    demo: Path, tmp_path: Path, mounted: Mounted, ending: str, method: int
) -> None:
    file = tmp_path / f"demo{ending}"
    zip_folder(demo, file, method)
    assert files_below(mounted(file)) == expected_tree(demo)


def test_the_raw_view_equals_the_folder(demo: Path, mounted: Mounted) -> None:
    point = mounted(demo, "--view", "raw")
    assert run("diff", "-r", demo, point) == ""
    names = [str(path.relative_to(demo)) for path in demo.rglob("*") if path.is_file()]
    assert filecmp.cmpfiles(demo, point, names, shallow=False) == (names, [], [])
    for path in demo.rglob("*"):
        status, own = path.stat(), (point / path.relative_to(demo)).stat()
        assert own.st_mtime_ns == status.st_mtime_ns
        assert stat.S_IFMT(own.st_mode) == stat.S_IFMT(status.st_mode)


@pytest.mark.parametrize("name", ["zstd/c/0/1.tiff", "header/c/1/2", "checksum/c/0/0"])
def test_any_range_of_a_merged_chunk_is_that_slice_of_its_parts(
    shown: Path, demo: Path, name: str
) -> None:
    whole = expected_tree(demo)[f"cells.zarr/{name}"]
    near_the_seams = st.one_of(
        st.integers(0, len(whole) + 5000),
        st.integers(0, 200),
        st.integers(len(whole) - 200, len(whole) + 200),
    )
    fd = os.open(shown / "cells.zarr" / name, os.O_RDONLY)

    @settings(max_examples=examples(200), deadline=None)
    @given(near_the_seams, st.integers(0, 300_000))
    def check(offset: int, size: int) -> None:
        assert os.pread(fd, size, offset) == whole[offset : offset + size]

    try:
        check()
    finally:
        os.close(fd)


def test_any_range_of_a_chunk_of_small_parts_is_that_slice_of_its_parts(
    stored: Stored, mounted: Mounted
) -> None:
    sizes = [1, 4095, 4096, 0, 4097, 1, 131_072, 7, 300_001]
    parts = {f".{index}": bytes([index + 1]) * size for index, size in enumerate(sizes)}
    source = stored(
        {
            "zarr.json": array([4], transformers=[concat_parts(*parts)]),
            **{f"c/0{suffix}": data for suffix, data in parts.items()},
        }
    )
    whole = b"".join(parts.values())
    fd = os.open(mounted(source) / "c/0", os.O_RDONLY)

    @settings(max_examples=examples(200), deadline=None)
    @given(st.integers(0, len(whole) + 10), st.integers(0, 20_000))
    def check(offset: int, size: int) -> None:
        assert os.pread(fd, size, offset) == whole[offset : offset + size]

    try:
        check()
        assert os.pread(fd, len(whole) + 1, 0) == whole
    finally:
        os.close(fd)


def test_a_merged_chunk_can_be_mapped(shown: Path, demo: Path) -> None:
    whole = expected_tree(demo)["cells.zarr/header/c/0/0"]
    with (shown / "cells.zarr/header/c/0/0").open("rb") as file:
        for flags in (mmap.MAP_SHARED, mmap.MAP_PRIVATE):
            with mmap.mmap(file.fileno(), 0, flags=flags, prot=mmap.PROT_READ) as mapped:
                assert mapped[:] == whole


def test_copying_tools_read_the_whole_tree(shown: Path, demo: Path, tmp_path: Path) -> None:
    expected = expected_tree(demo)
    run("cp", "-r", "--", shown, tmp_path / "copied")
    assert files_below(tmp_path / "copied") == expected
    run("tar", "-cf", tmp_path / "all.tar", "-C", shown, ".")
    with tarfile.open(tmp_path / "all.tar") as archive:
        members = {member.name[2:]: member for member in archive if member.isfile()}
        assert {name: member.size for name, member in members.items()} == {
            name: len(data) for name, data in expected.items()
        }
        assert archive.extractfile(members["README.txt"]).read() == expected["README.txt"]
    shutil.copytree(shown / "cells.zarr/strips", tmp_path / "strips")
    assert filecmp.cmp(
        tmp_path / "strips/c/1/1.tiff", shown / "cells.zarr/strips/c/1/1.tiff", shallow=False
    )


def test_ls_and_find_see_every_name_and_complain_of_nothing(shown: Path, demo: Path) -> None:
    found = set(run("find", shown, "-type", "f").splitlines())
    assert found == {str(shown / name) for name in expected_tree(demo)}
    assert run("ls", "-a", shown / "cells.zarr/zstd").split() == [".", "..", "c", "zarr.json"]
    listing = run("ls", "-lR", shown)
    assert "?" not in listing
    assert run("find", shown, "-name", "*.index") == ""
    assert run("find", shown, "-empty") == ""
    run("du", "-s", shown)


def test_the_space_is_that_of_what_the_store_lies_on(shown: Path, demo: Path) -> None:
    here, there = os.statvfs(shown), os.statvfs(demo)
    assert here.f_blocks * here.f_frsize == pytest.approx(
        there.f_blocks * there.f_frsize, abs=here.f_frsize
    )
    assert here.f_namemax == 255
    assert here.f_flag & os.ST_RDONLY
    assert str(shown) in run("df", shown)


def test_the_mount_table_names_the_source(shown: Path, demo: Path) -> None:
    assert run("findmnt", "-no", "SOURCE,FSTYPE", shown).split() == [str(demo), "fuse.zarrfuse"]


def test_a_source_can_be_mounted_twice(demo: Path, mounted: Mounted) -> None:
    first, second = mounted(demo), mounted(demo, "--view", "raw")
    name = "cells.zarr/checksum/c/0/0"
    whole = (demo / name).read_bytes()
    assert (second / name).read_bytes() == whole
    assert (first / name).read_bytes() == whole + (demo / f"{name}.crc32c").read_bytes()


AWKWARD = [
    "with spaces",
    "größe µm 日本",
    "a,b,c",
    "back\\slash",
    "line\nbreak",
    "quo'te\"",
    "-dash",
]


@pytest.mark.parametrize("name", AWKWARD)
def test_sources_and_mountpoints_may_have_any_name(tmp_path: Path, name: str) -> None:
    source, point = tmp_path / "from" / name, tmp_path / "to" / name
    write_keys(source, {"zarr.json": group(), "a file": b"here"})
    point.mkdir(parents=True)
    try:
        zarrfuse("mount", source, point)
        assert (point / "a file").read_bytes() == b"here"
        zarrfuse("unmount", point)
        assert not any(point.iterdir())
    finally:
        clear(point)


def test_zips_may_have_any_name(tmp_path: Path, mounted: Mounted) -> None:
    write_keys(tmp_path / "folder", {"a file": b"here"})
    name = "a, b; µ \\ 'c'.zip"
    zip_folder(tmp_path / "folder", tmp_path / name)
    assert (mounted(tmp_path / name) / "a file").read_bytes() == b"here"


def test_files_may_have_any_name(stored: Stored, mounted: Mounted) -> None:
    names = [*AWKWARD, "x" * 255, os.fsdecode(b"latin1-\xe9"), "...", " ", "*", "\x01"]
    source = stored({f"{name}/{name}": name.encode("utf-8", "surrogateescape") for name in names})
    point = mounted(source)
    assert sorted(os.listdir(point)) == sorted(names)
    for name in names:
        assert (point / name / name).read_bytes() == os.fsencode(name)


def test_a_name_longer_than_any_is_an_error_of_that_name(shown: Path) -> None:
    with pytest.raises(OSError) as raised:
        os.stat(shown / ("x" * 300))
    assert raised.value.errno in (2, 36)


def test_parts_stay_hidden_and_strays_visible(stored: Stored, mounted: Mounted) -> None:
    source = stored(
        {
            "zarr.json": array(
                keys=suffix_keys(".tiff"), transformers=[concat_parts("", (".index", 4))]
            ),
            "c/0/0.tiff": b"II*\0",
            "c/0/0.tiff.index": b"last",
            "c/7/7.tiff": b"outside of the grid",
            "c/7/7.tiff.index": b"of that",
            "README.txt": b"read me",
        }
    )
    point = mounted(source)
    assert files_below(point) == {
        "zarr.json": (source / "zarr.json").read_bytes(),
        "c/0/0.tiff": b"II*\0last",
        "c/7/7.tiff": b"outside of the grid",
        "c/7/7.tiff.index": b"of that",
        "README.txt": b"read me",
    }
    assert not (point / "c/0/0.tiff.index").exists()
    assert not (point / "c/0/1.tiff").exists()


def test_readers_at_one_time_each_get_their_own_bytes(shown: Path, demo: Path) -> None:
    expected = {
        name: hashlib.sha256(data).hexdigest() for name, data in expected_tree(demo).items()
    }
    processes = [
        subprocess.Popen(["sha256sum", *expected], cwd=shown, stdout=subprocess.PIPE, text=True)
        for _ in range(6)
    ]
    for process in processes:
        output, _ = process.communicate(timeout=60)
        assert process.returncode == 0
        assert dict(line.split("  ")[::-1] for line in output.splitlines()) == expected
