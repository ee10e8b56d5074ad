"""Random programs do the same on a mount and on a plain folder (`writing_model`)."""

import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from builders.documents import array, concat_parts, v2_keys
from builders.folders import write_keys
from builders.mounts import clear, zarrfuse
from builders.processes import assert_ended
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sampling import examples
from writing_model import Layout, SideBySide

HEADER = 4

RAW = Layout(
    files=("a", "b", "d/a", "d/b", "e/a"),
    folders=("d", "e", "d/e"),
    headers={},
    listed=("", "d", "e", "d/e", "e/e"),
)
CHUNKS = Layout(
    files=("a", "d/a", "x/c/0/0.partial", "h/c/0/1.partial"),
    folders=("d", "e"),
    headers={
        **{"x/c/0/0": 0, "x/c/0/1": 0, "x/c/1/0": 0},
        **{"h/c/0/0": HEADER, "h/c/0/1": HEADER, "h/c/1/0": HEADER},
    },
    listed=("", "d", "e", "x/c/0", "x/c/1", "h/c/0", "h/c/1"),
)
PLAIN = Layout(
    files=(*CHUNKS.files, "y/c/0/0.partial"),
    folders=CHUNKS.folders,
    headers={**CHUNKS.headers, "y/c/0/0": 0, "y/c/0/1": 0},
    listed=(*CHUNKS.listed, "y/c/0"),
)
LAYOUTS = {"raw": RAW, "chunks": CHUNKS, "plain": PLAIN}

DOCUMENTS = {
    "x": array((4, 4)),
    "h": array((4, 4), transformers=[concat_parts((".head", HEADER), "")]),
    "y": array((4, 4), keys=v2_keys()),
}


def stored_keys(chunk: str) -> list[str]:
    """The keys of the parts of a chunk."""
    if chunk.startswith("h/"):
        return [f"{chunk}.head", chunk]
    return [f"y/{chunk[4:].replace('/', '.')}" if chunk.startswith("y/") else chunk]


def prepare(source: Path, disk: Path, layout: Layout) -> None:
    """The folder of a store, and the plain one, with some of the names of a layout in them."""
    files = {"a": b"an ordinary file", "d/a": b"another one"}
    chunks = {chunk: chunk.encode() for chunk in list(layout.headers)[::2]}
    write_keys(disk, files | chunks)
    write_keys(source, files)
    for chunk, data in chunks.items():
        *header, rest = stored_keys(chunk)
        stored = dict.fromkeys(header, data[:HEADER])
        write_keys(source, {**stored, rest: data[HEADER:] if header else data})
    for chunk in layout.headers:
        (disk / chunk).parent.mkdir(parents=True, exist_ok=True)
        (source / stored_keys(chunk)[-1]).parent.mkdir(parents=True, exist_ok=True)
        node = chunk[0]
        write_keys(source, {f"{node}/zarr.json": DOCUMENTS[node]})
        (disk / node / "zarr.json").write_bytes(b"")


FLAGS = [
    access | how
    for access in (os.O_RDONLY, os.O_WRONLY, os.O_RDWR)
    for how in (
        0,
        *(os.O_CREAT, os.O_CREAT | os.O_EXCL, os.O_CREAT | os.O_TRUNC, os.O_TRUNC, os.O_APPEND),
        os.O_CREAT | os.O_APPEND,
    )
    if access != os.O_RDONLY or not how & (os.O_TRUNC | os.O_CREAT)
]


NEW = os.O_WRONLY | os.O_CREAT


def programs(layout: Layout) -> st.SearchStrategy[list[tuple]]:
    """Programs of up to 30 operations on the names of a layout; handles are numbers."""
    file = st.sampled_from((*layout.files, *layout.headers))
    folder = st.sampled_from(layout.folders)
    name = file | folder
    handle = st.integers(0, 3)
    size = st.sampled_from((0, 1, 3, 4, 5, 100, 5000))
    whole = st.sampled_from((b"x", b"four", b"longer than four", b"page" * 1100))
    data = whole | st.just(b"")
    operations = {
        "put": (file, whole),
        "open": (file, st.sampled_from(FLAGS)),
        "write": (handle, size, data),
        "read": (handle, size, size),
        "size": (handle,),
        "links": (handle,),
        "ftruncate": (handle, size),
        "fsync": (handle,),
        "close": (handle,),
        "truncate": (file, size),
        "rename": (file, file),
        "move_by_link": (file, file),
        "unlink": (name,),
        "mkdir": (folder,),
        "rmdir": (name,),
        "utime": (file, st.sampled_from((10**18, 1_400_000_000_123_000_000))),
        "stat": (name,),
        "listdir": (folder,),
        "content": (file,),
    }
    often = ("open", "open", "open", "put", "put", "write", "write", "write", "close", "rename")
    drawn = [
        st.tuples(st.just(operation), *operations[operation])
        for operation in (*operations, *often, *often)
    ]
    drawn.append(st.tuples(st.just("rename"), folder, folder))
    return st.lists(st.one_of(drawn), min_size=15, max_size=30)


@pytest.fixture(scope="module")
def mount(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a store, where it is mounted, and plain folders."""
    base = tmp_path_factory.mktemp("model")
    (base / "store").mkdir()
    (base / "mnt").mkdir()
    zarrfuse("mount", base / "store", base / "mnt", "--view", "all", "--read-write")
    yield base
    done = zarrfuse("unmount", base / "mnt", check=False)
    clear(base / "mnt")
    assert done.returncode == 0, done.stderr
    assert_ended(base)
    assert not (base / "store/.zarrfuse").exists()


NUMBERS = count()


def run(base: Path, view: str, program: list[tuple]) -> None:
    """Run a program in a new folder of a view and on a new plain folder."""
    name = f"run{next(NUMBERS)}"
    source, disk = base / "store" / name, base / "disk" / name
    prepare(source, disk, LAYOUTS[view])
    sides = SideBySide(base / "mnt" / view / name, disk, LAYOUTS[view])
    try:
        for operation, *arguments in program:
            sides.apply(operation, *arguments)
        sides.compare()
    finally:
        sides.mount.let_go()
        sides.disk.let_go()
    for chunk, header in LAYOUTS[view].headers.items():
        keys = [source / key for key in stored_keys(chunk)]
        stored = [key.read_bytes() for key in keys if key.exists()]
        assert b"".join(stored) == ((disk / chunk).read_bytes() if stored else b"")
        assert len(stored) == (len(keys) if (disk / chunk).exists() else 0)
        assert not (header and stored) or len(stored[0]) == header


@settings(max_examples=examples(100), derandomize=True, deadline=None, database=None)
@given(program=programs(RAW))
@example([("open", "b", NEW), ("listdir", "d"), ("write", 0, 0, b"x"), ("size", 0)])
@example([("open", "d/b", NEW), ("listdir", "d"), ("write", 0, 0, b"x"), ("size", 0)])
@example([("open", "d/a", 0), ("put", "d/a", b"x"), ("unlink", "d/a"), ("size", 0)])
def test_programs_go_the_same_way_in_raw(mount: Path, program: list[tuple]) -> None:
    run(mount, "raw", program)


@settings(max_examples=examples(100), derandomize=True, deadline=None, database=None)
@given(program=programs(CHUNKS))
@example([("rename", "h/c/0/1", "a"), ("move_by_link", "a", "x/c/0/0.partial")])
@example([("open", "h/c/1/0", NEW | os.O_EXCL), ("rename", "h/c/1/0", "x/c/1/0")])
@example([("rename", "h/c/0/1", "x/c/0/0"), ("rename", "x/c/0/0", "a"), ("put", "a", b"x")])
def test_programs_go_the_same_way_in_chunks(mount: Path, program: list[tuple]) -> None:
    run(mount, "chunks", program)


@settings(max_examples=examples(100), derandomize=True, deadline=None, database=None)
@given(program=programs(PLAIN))
@example([("open", "a", 0), ("rename", "d/a", "y/c/0/0.partial"), ("size", 0)])
@example(
    [
        ("put", "y/c/0/0.partial", b"x"),
        ("open", "y/c/0/0.partial", 0),
        ("rename", "d/a", "y/c/0/0.partial"),
        ("size", 0),
    ]
)
def test_programs_go_the_same_way_in_plain(mount: Path, program: list[tuple]) -> None:
    run(mount, "plain", program)
