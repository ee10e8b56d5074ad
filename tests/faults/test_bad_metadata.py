"""Documents that are broken, hostile or gone: their chunks are refused, all else works."""

import errno
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from builders.documents import array, concat_parts, document
from builders.folders import write_files
from builders.mounts import Daemon, drop_caches, serving, wait_for
from daemons import errno_when

from zarrfuse.views.nodes import LARGEST_DOCUMENT

CHUNK = b"abcd"
REFUSED = errno.ENOTSUP


def _deep(member: str) -> bytes:
    text = array((8, 8)).decode().rstrip("}")
    return f'{text}, "{member}": {"[" * 100_000}{"]" * 100_000}}}'.encode()


def _without(member: str) -> bytes:
    members = document((8, 8))
    del members[member]
    return json.dumps(members).encode()


def _many_parts(count: int) -> list[dict[str, Any]]:
    return [concat_parts("", *(f".{n}" for n in range(count - 1)))]


BAD: dict[str, bytes] = {
    "empty": b"",
    "truncated": array((8, 8))[:-20],
    "zeros": bytes(4096),
    "not-utf-8": array((8, 8)) + b"\xff",
    "bad-utf-8-inside": array((8, 8), attributes={"a": "x"}).replace(b'"x"', b'"\xff"'),
    "bom": b"\xef\xbb\xbf" + array((8, 8)),
    "utf-16": array((8, 8)).decode().encode("utf-16"),
    "infinity-shape": array(shape=[float("inf"), 1]),
    "array-of-json": b"[1, 2, 3]",
    "number": b"12",
    "two-documents": array((8, 8)) * 2,
    "deep-attributes": _deep("attributes"),
    "deep-fill-value": _deep("fill_value"),
    "deep-unknown": _deep("unknown"),
    "deep-objects": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "negative-shape": array(shape=[-1, 8]),
    "zero-chunks": array((8, 8), (0, 0)),
    "fewer-chunk-dimensions": array((8, 8), (2,)),
    "long-number": array((8, 8)).replace(b"[8, 8]", b"[8, " + b"9" * 100_000 + b"]"),
    "float-shape": array(shape=[8.0, 8]),
    "no-codecs": _without("codecs"),
    "unknown-extension": array((8, 8), transformers=[{"name": "no.such"}]),
    "no-parts": array((8, 8), transformers=[concat_parts()]),
    "part-above": array((8, 8), transformers=[concat_parts("/../../../../../etc/passwd")]),
    "part-nul": array((8, 8), transformers=[concat_parts("\0")]),
    "part-negative": array((8, 8), transformers=[concat_parts(("", -1))]),
    "lone-surrogate": array((8, 8), unknown="\ud800"),
    "log-injection": array((8, 8), **{"a\nERROR forged": 1}),
}

# What can be loaded, although nobody means it; the chunk c/0/0 is there.
ODD: dict[str, bytes] = {
    "huge-shape": array(shape=[1 << 63, 1 << 63]),
    "huger-shape": array(shape=[1 << 200, 8]),
    "huge-chunks": array((8, 8), (1 << 63, 1 << 63)),
    "many-attributes": array((8, 8), attributes={str(n): n for n in range(100_000)}),
    "duplicate-keys": array((8, 8))[:-1] + b', "shape": [8, 8]}',
    "nan": array((8, 8), fill_value=float("nan")),
    "unsized-parts": array((8, 8), transformers=_many_parts(1)),
}


def _special(folder: Path) -> dict[str, Callable[[Path], object]]:
    return {
        "folder": lambda path: path.mkdir(),
        "symlink-loop": lambda path: path.symlink_to("zarr.json"),
        "fifo": os.mkfifo,
        "symlink-out": lambda path: path.symlink_to("/etc/passwd"),
        "dangling": lambda path: path.symlink_to("nowhere"),
        "device": lambda path: os.mknod(path, 0o600 | 0o020000, os.makedev(1, 5)),
    }


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One array for each document."""
    folder = tmp_path_factory.mktemp("metadata") / "source"
    for name, text in {**BAD, **ODD}.items():
        write_files(folder, {f"{name}/zarr.json": text, f"{name}/c/0/0": CHUNK})
        write_files(folder, {f"{name}/child/zarr.json": array((8, 8))})
        write_files(folder, {f"{name}/child/c/0/0": CHUNK})
    for name, make in _special(folder).items():
        write_files(folder, {f"{name}/c/0/0": CHUNK})
        try:
            make(folder / name / "zarr.json")
        except PermissionError:
            continue
    write_files(folder, {"fine/zarr.json": array((8, 8)), "fine/c/0/0": CHUNK})
    return folder


@pytest.fixture(scope="module")
def mount(tmp_path_factory: pytest.TempPathFactory, source: Path) -> Iterator[Daemon]:
    """The mount of it, with names kept for long: what is told is told once."""
    folder = tmp_path_factory.mktemp("mount")
    with serving(folder, source, "--xattrs", "--cache-ttl", "600") as daemon:
        yield daemon


def assert_the_rest_works(daemon: Daemon) -> None:
    """The array beside it can be read."""
    assert (daemon.mountpoint / "fine/c/0/0").read_bytes() == CHUNK
    assert daemon.is_up()


@pytest.mark.parametrize("name", BAD)
def test_a_bad_document_is_shown_and_its_chunks_are_refused(mount: Daemon, name: str) -> None:
    node = mount.mountpoint / name
    assert sorted(os.listdir(node)) == ["c", "child", "zarr.json"]
    assert (node / "zarr.json").stat().st_size == len(BAD[name])
    assert (node / "zarr.json").read_bytes() == BAD[name]
    assert (node / "c/0/0").stat().st_size == len(CHUNK)
    assert errno_when((node / "c/0/0").read_bytes) == REFUSED
    assert errno_when((node / "c/0/0").read_bytes) == REFUSED
    assert (node / "child/c/0/0").read_bytes() == CHUNK
    told = mount.info(f"{name}/zarr.json")["error"]
    assert told.startswith(f"{name}/zarr.json: ")
    assert len(told) < 1000
    assert mount.info(f"{name}/c/0/0")["error"]
    assert os.getxattr(node, "user.zarrfuse.error")
    assert_the_rest_works(mount)


def test_each_bad_document_is_reported_once(tmp_path: Path, source: Path) -> None:
    """Whoever asks, and however often: for a chunk, the folder, its control file, its attributes."""
    with serving(tmp_path, source, "--xattrs", "--cache-ttl", "0") as daemon:
        for name in BAD:
            node = daemon.mountpoint / name
            for _ in range(2):
                os.listdir(node)
                assert errno_when((node / "c/0/0").read_bytes) == REFUSED
                assert daemon.info(f"{name}/zarr.json")["error"]
                assert daemon.info(f"{name}/c/0/0")["error"]
                assert os.getxattr(node, "user.zarrfuse.error")
            drop_caches()
        log = daemon.text().splitlines()
        lines = {name: [line for line in log if f" {name}/zarr.json" in line] for name in BAD}
        assert {name: len(told) for name, told in lines.items()} == dict.fromkeys(BAD, 1)
        assert all("WARNING" in told[0] for told in lines.values())


@pytest.mark.parametrize("name", ODD)
def test_an_odd_document_is_taken_at_its_word(mount: Daemon, name: str) -> None:
    node = mount.mountpoint / name
    assert sorted(os.listdir(node)) == ["c", "child", "zarr.json"]
    assert (node / "zarr.json").read_bytes() == ODD[name]
    assert (node / "c/0/0").read_bytes() == CHUNK
    assert "error" not in mount.info(f"{name}/c/0/0")
    assert os.listxattr(node)
    assert_the_rest_works(mount)


@pytest.mark.parametrize("name", _special(Path()))
def test_a_document_that_is_no_file_makes_no_node(mount: Daemon, name: str) -> None:
    node = mount.mountpoint / name
    assert "c" in os.listdir(node)
    errno_when((node / "zarr.json").stat)
    errno_when((node / "zarr.json").read_bytes)
    assert errno_when((node / "c/0/0").read_bytes) in (0, REFUSED)
    assert_the_rest_works(mount)


def test_nothing_of_it_is_a_fault(mount: Daemon) -> None:
    assert "Traceback" not in mount.text()
    assert "\nERROR forged" not in mount.text()


def _huge_zeros(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(200 << 20)


def _huge_attributes(path: Path) -> None:
    text = array((8, 8), attributes={})
    start, end = text.split(b'"attributes": {}')
    with path.open("wb") as file:
        file.write(start + b'"attributes": {"a": "')
        for _ in range(200):
            file.write(b"x" * (1 << 20))
        file.write(b'"}' + end)


LARGE: dict[str, Callable[[Path], None]] = {"zeros": _huge_zeros, "attributes": _huge_attributes}


@pytest.mark.parametrize("name", LARGE)
def test_200_mib_of_document_take_no_memory(tmp_path: Path, name: str) -> None:
    source = tmp_path / "source"
    write_files(source, {"fine/zarr.json": array((8, 8)), "fine/c/0/0": CHUNK})
    write_files(source, {"large/c/0/0": CHUNK})
    LARGE[name](source / "large/zarr.json")
    with serving(tmp_path, source) as daemon:
        node = daemon.mountpoint / "large"
        assert sorted(os.listdir(node)) == ["c", "zarr.json"]
        assert (node / "zarr.json").stat().st_size >= 200 << 20
        assert errno_when((node / "c/0/0").read_bytes) == REFUSED
        assert errno_when((node / "c/0/0").read_bytes) == REFUSED
        with (node / "zarr.json").open("rb") as file:
            while file.read(1 << 20):
                pass
        assert "error" in daemon.info("large/zarr.json")
        assert_the_rest_works(daemon)
        assert daemon.peak_mib() < 150
        assert "WARNING" in daemon.text()


@pytest.mark.parametrize(("member", "item"), [("shape", b"8,"), ("codecs", b"{},")])
def test_the_largest_document_that_is_read_takes_bounded_memory(
    tmp_path: Path, member: str, item: bytes
) -> None:
    source = tmp_path / "source"
    write_files(source, {"fine/zarr.json": array((8, 8)), "fine/c/0/0": CHUNK})
    write_files(source, {"large/c/0/0": CHUNK})
    text = json.dumps({**document((8, 8)), member: None}).encode()
    start, end = text.split(b'"' + member.encode() + b'": null')
    body = item * ((LARGEST_DOCUMENT - len(text)) // len(item))
    (source / "large/zarr.json").write_bytes(
        start + b'"' + member.encode() + b'": [' + body.rstrip(b",") + b"]" + end
    )
    with serving(tmp_path, source) as daemon:
        node = daemon.mountpoint / "large"
        errno_when((node / "c/0/0").read_bytes)
        assert_the_rest_works(daemon)
        assert daemon.peak_mib() < 400


def test_ten_thousand_parts_are_one_chunk(tmp_path: Path) -> None:
    count = 10_000
    source = tmp_path / "source"
    document = array((8, 8), transformers=_many_parts(count))
    names = ["0", *(f"0.{n}" for n in range(count - 1))]
    write_files(source, {"a/zarr.json": document})
    write_files(source, {f"a/c/0/{name}": b"%8d" % index for index, name in enumerate(names)})
    write_files(source, {"a/c/1/0": b"not whole"})
    with serving(tmp_path, source) as daemon:
        folder = daemon.mountpoint / "a/c/0"
        assert os.listdir(folder) == ["0"]
        assert (folder / "0").stat().st_size == 8 * count
        assert (folder / "0").read_bytes() == b"".join(b"%8d" % n for n in range(count))
        assert daemon.descriptors() < 100
        assert errno_when((folder.parent / "1/0").read_bytes) == errno.EIO
        assert "is missing" in daemon.info("a/c/1/0")["error"]
        assert daemon.is_up()
        assert "Traceback" not in daemon.text()


def test_ten_thousand_dimensions_do_no_harm(tmp_path: Path) -> None:
    source = tmp_path / "source"
    many = [1] * 10_000
    document = array(many, many)
    write_files(source, {"a/zarr.json": document, "a/c/0/0": CHUNK, "fine/c/0/0": CHUNK})
    with serving(tmp_path, source) as daemon:
        assert os.listdir(daemon.mountpoint / "a/c/0") == ["0"]
        assert (daemon.mountpoint / "a/c/0/0").read_bytes() == CHUNK  # not a chunk, but a file
        assert daemon.info("a/zarr.json")["shape"] == many
        assert_the_rest_works(daemon)
        assert daemon.peak_mib() < 200


def test_a_document_that_turns_bad_and_good_again_is_followed(tmp_path: Path) -> None:
    source = tmp_path / "source"
    good = array((8, 8))
    write_files(source, {"a/zarr.json": good, "a/c/0/0": CHUNK})
    with serving(tmp_path, source, "--cache-ttl", "0") as daemon:
        chunk = daemon.mountpoint / "a/c/0/0"
        for _ in range(3):
            assert chunk.read_bytes() == CHUNK
            (source / "a/zarr.json").write_bytes(good[:-3])
            assert errno_when(chunk.read_bytes) == REFUSED
            assert (daemon.mountpoint / "a/zarr.json").read_bytes() == good[:-3]
            (source / "a/zarr.json").unlink()
            assert chunk.read_bytes() == CHUNK  # no node, a file like any other
            (source / "a/zarr.json").write_bytes(good)
        assert daemon.text().count("WARNING") == 3


def test_parts_that_appear_in_the_metadata_are_merged(tmp_path: Path) -> None:
    source = tmp_path / "source"
    parts = [concat_parts(".a", ".b")]
    write_files(source, {"a/zarr.json": array((8, 8))})
    write_files(source, {"a/c/0/0.a": b"one", "a/c/0/0.b": b"two"})
    with serving(tmp_path, source, "--cache-ttl", "0") as daemon:
        folder = daemon.mountpoint / "a/c/0"
        assert sorted(os.listdir(folder)) == ["0.a", "0.b"]
        document = array((8, 8), transformers=parts)
        (source / "a/zarr.json").write_bytes(document)
        assert os.listdir(folder) == ["0"]
        assert (folder / "0").read_bytes() == b"onetwo"


def test_a_document_that_cannot_be_read_is_reported_once(tmp_path: Path) -> None:
    """However often its chunks are asked for."""
    source = tmp_path / "source"
    write_files(source, {"a/c/0/0": CHUNK})
    (source / "a/zarr.json").symlink_to("/etc/passwd")
    with serving(tmp_path, source, "--cache-ttl", "0") as daemon:
        for _ in range(5):
            assert errno_when((daemon.mountpoint / "a/c/0/0").read_bytes) == REFUSED
        wait_for(lambda: "zarr.json" in daemon.text())
        assert daemon.text().count("WARNING") == 1, daemon.text()
