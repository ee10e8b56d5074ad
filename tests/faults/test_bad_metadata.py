"""Documents that are broken, hostile or gone: their chunks are refused, all else works."""

import errno
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from builders.mounts import drop_caches, wait_for
from daemons import Daemon, array, errno_when, in_parts, serving, write

from zarrfuse.views.nodes import LARGEST_DOCUMENT

CHUNK = b"abcd"
REFUSED = errno.ENOTSUP


def _deep(member: str) -> bytes:
    text = json.dumps(array()).rstrip("}")
    return f'{text}, "{member}": {"[" * 100_000}{"]" * 100_000}}}'.encode()


def _grid(*shape: int) -> dict[str, Any]:
    return {"name": "regular", "configuration": {"chunk_shape": list(shape)}}


def _many_parts(count: int) -> list[dict[str, Any]]:
    return in_parts({"key_suffix": ""}, *({"key_suffix": f".{n}"} for n in range(count - 1)))


BAD: dict[str, bytes] = {
    "empty": b"",
    "truncated": json.dumps(array()).encode()[:-20],
    "zeros": bytes(4096),
    "not-utf-8": json.dumps(array()).encode() + b"\xff",
    "bad-utf-8-inside": json.dumps(array(attributes={"a": "x"}))
    .encode()
    .replace(b'"x"', b'"\xff"'),
    "bom": b"\xef\xbb\xbf" + json.dumps(array()).encode(),
    "utf-16": json.dumps(array()).encode("utf-16"),
    "infinity-shape": json.dumps(array(shape=[float("inf"), 1])).encode(),
    "array-of-json": b"[1, 2, 3]",
    "number": b"12",
    "two-documents": json.dumps(array()).encode() * 2,
    "deep-attributes": _deep("attributes"),
    "deep-fill-value": _deep("fill_value"),
    "deep-unknown": _deep("unknown"),
    "deep-objects": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "negative-shape": json.dumps(array(shape=[-1, 8])).encode(),
    "zero-chunks": json.dumps(array(chunk_grid=_grid(0, 0))).encode(),
    "fewer-chunk-dimensions": json.dumps(array(chunk_grid=_grid(2))).encode(),
    "long-number": json.dumps(array()).encode().replace(b"[8, 8]", b"[8, " + b"9" * 100_000 + b"]"),
    "float-shape": json.dumps(array(shape=[8.0, 8])).encode(),
    "no-codecs": json.dumps({k: v for k, v in array().items() if k != "codecs"}).encode(),
    "unknown-extension": json.dumps(array(storage_transformers=[{"name": "no.such"}])).encode(),
    "no-parts": json.dumps(array(storage_transformers=in_parts())).encode(),
    "part-above": json.dumps(
        array(storage_transformers=in_parts({"key_suffix": "/../../../../../etc/passwd"}))
    ).encode(),
    "part-nul": json.dumps(array(storage_transformers=in_parts({"key_suffix": "\0"}))).encode(),
    "part-negative": json.dumps(
        array(storage_transformers=in_parts({"key_suffix": "", "size": -1}))
    ).encode(),
    "lone-surrogate": json.dumps(array(unknown="\ud800")).encode(),
    "log-injection": json.dumps(array(**{"a\nERROR forged": 1})).encode(),
}

# What can be loaded, although nobody means it; the chunk c/0/0 is there.
ODD: dict[str, bytes] = {
    "huge-shape": json.dumps(array(shape=[1 << 63, 1 << 63])).encode(),
    "huger-shape": json.dumps(array(shape=[1 << 200, 8])).encode(),
    "huge-chunks": json.dumps(array(chunk_grid=_grid(1 << 63, 1 << 63))).encode(),
    "many-attributes": json.dumps(array(attributes={str(n): n for n in range(100_000)})).encode(),
    "duplicate-keys": json.dumps(array()).encode()[:-1] + b', "shape": [8, 8]}',
    "nan": json.dumps(array(fill_value=float("nan"))).encode(),
    "unsized-parts": json.dumps(array(storage_transformers=_many_parts(1))).encode(),
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
    for name, document in {**BAD, **ODD}.items():
        write(folder, {f"{name}/zarr.json": document, f"{name}/c/0/0": CHUNK})
        write(folder, {f"{name}/child/zarr.json": json.dumps(array()).encode()})
        write(folder, {f"{name}/child/c/0/0": CHUNK})
    for name, make in _special(folder).items():
        write(folder, {f"{name}/c/0/0": CHUNK})
        try:
            make(folder / name / "zarr.json")
        except PermissionError:
            continue
    write(folder, {"fine/zarr.json": json.dumps(array()).encode(), "fine/c/0/0": CHUNK})
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
    text = json.dumps(array(attributes={})).encode()
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
    write(source, {"fine/zarr.json": json.dumps(array()).encode(), "fine/c/0/0": CHUNK})
    write(source, {"large/c/0/0": CHUNK})
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
    write(source, {"fine/zarr.json": json.dumps(array()).encode(), "fine/c/0/0": CHUNK})
    write(source, {"large/c/0/0": CHUNK})
    text = json.dumps({**array(), member: None}).encode()
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
    document = json.dumps(array(storage_transformers=_many_parts(count))).encode()
    names = ["0", *(f"0.{n}" for n in range(count - 1))]
    write(source, {"a/zarr.json": document})
    write(source, {f"a/c/0/{name}": b"%8d" % index for index, name in enumerate(names)})
    write(source, {"a/c/1/0": b"not whole"})
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
    document = json.dumps(array(shape=many, chunk_grid=_grid(*many))).encode()
    write(source, {"a/zarr.json": document, "a/c/0/0": CHUNK, "fine/c/0/0": CHUNK})
    with serving(tmp_path, source) as daemon:
        assert os.listdir(daemon.mountpoint / "a/c/0") == ["0"]
        assert (daemon.mountpoint / "a/c/0/0").read_bytes() == CHUNK  # not a chunk, but a file
        assert daemon.info("a/zarr.json")["shape"] == many
        assert_the_rest_works(daemon)
        assert daemon.peak_mib() < 200


def test_a_document_that_turns_bad_and_good_again_is_followed(tmp_path: Path) -> None:
    source = tmp_path / "source"
    good = json.dumps(array()).encode()
    write(source, {"a/zarr.json": good, "a/c/0/0": CHUNK})
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
    parts = in_parts({"key_suffix": ".a"}, {"key_suffix": ".b"})
    write(source, {"a/zarr.json": json.dumps(array()).encode()})
    write(source, {"a/c/0/0.a": b"one", "a/c/0/0.b": b"two"})
    with serving(tmp_path, source, "--cache-ttl", "0") as daemon:
        folder = daemon.mountpoint / "a/c/0"
        assert sorted(os.listdir(folder)) == ["0.a", "0.b"]
        document = json.dumps(array(storage_transformers=parts)).encode()
        (source / "a/zarr.json").write_bytes(document)
        assert os.listdir(folder) == ["0"]
        assert (folder / "0").read_bytes() == b"onetwo"


def test_a_document_that_cannot_be_read_is_reported_once(tmp_path: Path) -> None:
    """However often its chunks are asked for."""
    source = tmp_path / "source"
    write(source, {"a/c/0/0": CHUNK})
    (source / "a/zarr.json").symlink_to("/etc/passwd")
    with serving(tmp_path, source, "--cache-ttl", "0") as daemon:
        for _ in range(5):
            assert errno_when((daemon.mountpoint / "a/c/0/0").read_bytes) == REFUSED
        wait_for(lambda: "zarr.json" in daemon.text())
        assert daemon.text().count("WARNING") == 1, daemon.text()
