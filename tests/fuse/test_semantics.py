"""Files in a mount are as on a disk, but for what the tables in `docs/semantics.md` say."""

import errno
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest
from builders.mounts import clear, zarrfuse
from builders.object_server import ObjectServer, set_environment
from builders.processes import assert_ended
from semantics import DISKS_DIFFER, FILES, FOLDERS, OBJECTS, READING, Operation, said, write
from semantics_places import (
    FILE_PLACES,
    FOLDER_MAKERS,
    FOLDER_PLACES,
    MAKERS,
    NAMES,
    OBJECT_FILE_PLACES,
    OBJECT_FOLDER_PLACES,
    Maker,
    ObjectSource,
    Place,
    Source,
    dotted,
    made,
    on_disk,
)

PAGE = (Path(__file__).parents[2] / "docs" / "semantics.md").read_text()
Places = tuple[tuple[str, Maker], ...]


def table(first: str) -> dict[tuple[str, str], str]:
    """The cells of the table whose first column is called `first`, by row and column.

    What it does not name goes as on a disk, except that `images` cannot be written.
    """
    lines = PAGE.partition(f"\n| {first} |")[2].partition("\n\n")[0].splitlines()
    columns = [column.strip() for column in lines[0].strip("| ").split(" | ")]
    cells = {}
    for line in lines[2:]:
        row, *words = (
            cell.strip() for cell in line.removeprefix("|").removesuffix("|").split(" | ")
        )
        assert len(words) == len(columns), line
        for column, word in zip(columns, words, strict=True):
            assert (row, column) not in cells, f"two rows are called {row}"
            cells[row, column] = word
    return cells


TABLES = {
    "disk": (
        (table("of a file"), FILES, FILE_PLACES),
        (table("of a folder"), FOLDERS, FOLDER_PLACES),
    ),
    "objects": (
        (table("of a file on an object store"), FILES, OBJECT_FILE_PLACES),
        (table("of a folder on an object store"), FOLDERS, OBJECT_FOLDER_PLACES),
    ),
}
"""By the kind of store: cells, the operations of their rows and the places of their columns."""


def word_for(cell: str, *names: str) -> str:
    """What a cell says of the places of these names: `yes`, or `yes; plain: EINVAL`."""
    general, *exceptions = cell.split("; ")
    words = dict(part.split(": ", 1) for part in exceptions)
    return next((words[name] for name in names if name in words), general).strip("`")


def all_words(cell: str) -> set[str]:
    """All that a cell says."""
    return {part.rpartition(": ")[2].strip("`") for part in cell.split("; ")}


def unsaid(row: str, column: str) -> str:
    """The word for what has no cell."""
    return "EROFS" if column == "in `images`" and row not in READING else "yes"


def cases() -> list[pytest.ParameterSet]:
    """Every operation in every kind of place."""
    return [
        pytest.param(
            operations[row],
            places[column],
            cells.get((row, column), unsaid(row, column)),
            id=f"{column}-{row}".replace("`", ""),
        )
        for cells, operations, places in TABLES["disk"]
        for row in operations
        for column in places
    ]


def cases_of_objects() -> list[pytest.ParameterSet]:
    """What depends on open files or on what stores can do: each request takes long."""
    return [
        pytest.param(
            operations[row],
            places[column],
            cells.get((row, column)) or others.get((row, column), "yes"),
            id=f"{column}-{row}".replace("`", ""),
        )
        for (cells, operations, places), (others, _, _) in zip(
            TABLES["objects"], TABLES["disk"], strict=True
        )
        for row in operations
        if row in OBJECTS or any((row, column) in cells for column in places)
        for column in places
    ]


class Mounted:
    """A store that is mounted to be written. `source` gives its folders to who changes them."""

    def __init__(self, point: Path, source: Callable[[str], Source]) -> None:
        self.point = point
        self._source = source
        self._numbers = count()

    def place(self, view: str, maker: Maker) -> Place:
        """A new one, in a folder that the mount has not been asked for."""
        name = f"t{next(self._numbers)}"
        return made(view, maker, self.point, self._source(name), name)


@contextmanager
def mounted(store: str | Path, base: Path, source: Callable[[str], Source]) -> Iterator[Mounted]:
    point = base / "mnt"
    point.mkdir()
    zarrfuse("mount", store, point, "--view", "all", "--read-write")
    yield Mounted(point, source)
    done = zarrfuse("unmount", point, check=False)
    clear(point)
    assert done.returncode == 0, done.stderr
    assert_ended(base)


@pytest.fixture(scope="module")
def on_a_disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mounted]:
    base = tmp_path_factory.mktemp("semantics")
    store = base / "store"
    store.mkdir()
    with mounted(store, base, lambda name: Source(store / name)) as mount:
        yield mount
    assert not (store / ".zarrfuse").exists()


@pytest.fixture(scope="module")
def on_objects(
    tmp_path_factory: pytest.TempPathFactory, object_server: ObjectServer
) -> Iterator[Mounted]:
    bucket = object_server.bucket()
    base = tmp_path_factory.mktemp("semantics_of_objects")
    with (
        set_environment(object_server.environment),
        mounted(bucket.url, base, lambda name: ObjectSource(bucket, name)) as mount,
    ):
        yield mount
    assert not any(key.startswith(".zarrfuse/") for key in bucket.all_keys())


@pytest.mark.parametrize(("operation", "places", "cell"), cases())
def test_an_operation_is_as_on_a_disk_or_as_its_cell_says(
    on_a_disk: Mounted, operation: Operation, places: Places, cell: str
) -> None:
    check(on_a_disk, operation, places, cell)


@pytest.mark.parametrize(("operation", "places", "cell"), cases_of_objects())
def test_on_an_object_store_it_is_as_on_a_disk_or_as_the_cell_says(
    on_objects: Mounted, operation: Operation, places: Places, cell: str
) -> None:
    check(on_objects, operation, places, cell)


def check(mount: Mounted, operation: Operation, places: Places, cell: str) -> None:
    """A cell says what the operation says of each place."""
    found = {}
    for view, maker in places:
        word = said(operation, mount.place(view, maker))
        if word is not None:
            found[view, maker.__name__] = word
    assert found
    expected = {(view, maker): word_for(cell, NAMES.get(maker, ""), view) for view, maker in found}
    assert found == expected


@pytest.mark.parametrize(
    ("operation", "maker"),
    [
        pytest.param(operation, maker, id=f"{maker.__name__}-{row}".replace("`", ""))
        for operations, makers in ((FILES, MAKERS), (FOLDERS, FOLDER_MAKERS))
        for row, operation in operations.items()
        for maker in makers
        if row not in DISKS_DIFFER
    ],
)
def test_yes_is_what_a_disk_does(tmp_path: Path, operation: Operation, maker: Maker) -> None:
    assert said(operation, on_disk(maker, tmp_path / "disk")) in ("yes", None)


def test_a_folder_of_chunks_that_stands_for_no_stored_one_is_always_there(
    on_a_disk: Mounted,
) -> None:
    folder = on_a_disk.place("plain", dotted).file.parent.parent / "3"
    with pytest.raises(FileExistsError):
        folder.mkdir()
    folder.rmdir()
    assert folder.is_dir()
    write(folder / "0", b"chunk")
    assert (folder / "0").read_bytes() == b"chunk"


def test_every_row_is_tried_and_differs_from_a_disk() -> None:
    assert FILES.keys() | FOLDERS.keys() >= DISKS_DIFFER | READING | OBJECTS
    for cells, operations, places in TABLES["disk"]:
        rows = list(dict.fromkeys(row for row, _ in cells))
        assert rows == [row for row in operations if row in rows]
        assert list(dict.fromkeys(column for _, column in cells)) == list(places)
        for row in rows:
            assert any(cells[row, column] != unsaid(row, column) for column in places)


def test_what_differs_on_an_object_store_does_differ() -> None:
    for (cells, operations, places), (others, _, _) in zip(
        TABLES["objects"], TABLES["disk"], strict=True
    ):
        rows = dict.fromkeys(row for row, _ in cells)
        assert operations.keys() >= rows.keys()
        assert list(dict.fromkeys(column for _, column in cells)) == list(places)
        for row in rows:
            assert any(cells[row, column] != others.get((row, column), "yes") for column in places)


def test_every_word_of_a_cell_is_explained() -> None:
    legend = PAGE.partition("| a cell says |")[2].partition("\n\n")[0]
    explained = {line.split(" | ")[0].strip("| `") for line in legend.splitlines()[2:]}
    tables = [cells for kind in TABLES.values() for cells, _, _ in kind]
    words = {word for cells in tables for cell in cells.values() for word in all_words(cell)}
    assert words <= explained | {"ENOTSUP"} | set(errno.errorcode.values())
    assert explained <= words | {"an errno"}
