"""Numbers that the kernel was told of stand for their files until it has given them back, and no longer."""

from contextlib import suppress
from dataclasses import dataclass, field

import pytest

from zarrfuse.errors import Stale
from zarrfuse.fuse.nodes import Node, Nodes
from zarrfuse.stores.base import Entry, Kind
from zarrfuse.views.raw.view import RawFolder


class _Nothing(RawFolder):
    """A folder of no store."""

    def __init__(self, path: str = "") -> None:
        self.path = path

    def child(self, name: str) -> "_Nothing":
        return _Nothing(f"{self.path}/{name}")


@dataclass
class Kernel:
    """The nodes, and what the kernel has been told of."""

    nodes: Nodes = field(default_factory=lambda: Nodes(_Nothing(), Entry("", Kind.FOLDER, 0, 0)))
    told_of: list[int] = field(default_factory=list)

    @property
    def root(self) -> Node:
        return self.nodes.root

    def told(self, parent: Node, name: str, kind: Kind = Kind.FILE, **what: int) -> Node:
        """The node of a name that it looks up."""
        node = self.nodes.found(parent, Entry(name, kind, 0, 0, **what))
        self.nodes.told(node)
        self.told_of.append(node.number)
        return node

    def folder(self, name: str, *, parent: Node | None = None) -> Node:
        """A folder that it looks up."""
        return self.told(parent or self.root, name, Kind.FOLDER)

    def forgets(self, *nodes: Node) -> None:
        """It gives numbers back; without any, all of them."""
        for number in [node.number for node in nodes] or list(self.told_of):
            self.told_of.remove(number)
            self.nodes.forget([(number, 1)])

    def knows_nothing(self) -> bool:
        """Whether everything is as it was at first."""
        return self.kept() == {self.root.number} and not self.nodes.lookups

    def kept(self) -> set[int]:
        """The numbers that stand for something."""
        numbers = set()
        for number in range(self.nodes.last_number + 1):
            with suppress(Stale):
                numbers.add(self.nodes[number].number)
        return numbers


def test_a_name_has_one_number_as_long_as_it_is_the_same_file() -> None:
    kernel = Kernel()
    first = kernel.told(kernel.root, "a", identity=1)
    assert kernel.told(kernel.root, "a", identity=1) is first
    second = kernel.told(kernel.root, "a", identity=2)
    assert second.number != first.number
    assert (first.is_named, second.is_named) == (False, True)
    kernel.forgets()
    assert kernel.knows_nothing()


def test_a_number_is_not_given_twice() -> None:
    kernel = Kernel()
    first = kernel.told(kernel.root, "a")
    kernel.forgets()
    with pytest.raises(Stale):
        kernel.nodes[first.number]
    assert kernel.told(kernel.root, "a").number != first.number


def test_a_number_goes_with_a_file_that_is_renamed() -> None:
    kernel = Kernel()
    folder = kernel.folder("d")
    for number in range(3):
        node = kernel.told(folder, f"{number}.partial", identity=number + 1)
        kernel.nodes.move(node, folder, str(number))
        assert kernel.told(folder, str(number), identity=number + 1) is node
        assert kernel.told(folder, f"{number}.partial", identity=9) is not node
    kernel.forgets()
    assert kernel.knows_nothing()


def test_a_file_that_is_renamed_over_keeps_its_number_and_has_no_name() -> None:
    kernel = Kernel()
    old, new = kernel.told(kernel.root, "a"), kernel.told(kernel.root, "draft")
    kernel.nodes.move(new, kernel.root, "a")
    assert kernel.nodes[old.number] is old
    assert (old.is_named, new.is_named) == (False, True)
    kernel.forgets(new)
    assert not old.is_named
    kernel.forgets()
    assert kernel.knows_nothing()


def test_a_folder_moves_with_all_that_is_in_it() -> None:
    kernel = Kernel()
    first, second = kernel.folder("p"), kernel.folder("q")
    folder = kernel.folder("f", parent=first)
    below = kernel.folder("x", parent=folder)
    inside = kernel.told(below, "y")
    kernel.nodes.move(folder, second, "g")
    assert (inside.folder.path, folder.folder.path) == ("/q/g/x", "/q")
    assert kernel.told(below, "y") is inside
    kernel.forgets()
    assert kernel.knows_nothing()


def test_a_folder_is_kept_for_what_is_known_in_it() -> None:
    kernel = Kernel()
    folder = kernel.folder("d")
    inside = kernel.told(folder, "x")
    kernel.forgets(folder)
    assert kernel.nodes[inside.number] is inside
    assert kernel.folder("d") is folder
    kernel.forgets()
    assert kernel.knows_nothing()


def test_a_folder_that_moved_and_was_forgotten_has_the_number_that_is_told_next() -> None:
    kernel = Kernel()
    first, second = kernel.folder("p"), kernel.folder("q")
    folder = kernel.folder("f", parent=first)
    inside = kernel.told(folder, "x")
    kernel.nodes.move(folder, second, "f")
    kernel.forgets(folder)
    assert kernel.folder("f", parent=second) is folder
    kernel.forgets(inside)
    kernel.told(folder, "y")
    kernel.forgets()
    assert kernel.knows_nothing()


def test_a_folder_is_freed_when_a_name_in_it_is_deleted_that_was_moved_there() -> None:
    kernel = Kernel()
    first, second = kernel.folder("a"), kernel.folder("b")
    node = kernel.told(first, "draft")
    kernel.nodes.move(node, second, "zarr.json")
    kernel.forgets(first, second)
    assert kernel.kept() == {kernel.root.number, second.number, node.number}
    kernel.nodes.unname(second, "zarr.json")
    kernel.forgets()
    assert kernel.knows_nothing()


def test_names_of_one_file_have_one_number() -> None:
    kernel = Kernel()
    folder = kernel.folder("d")
    first = kernel.told(kernel.root, "a", identity=1, links=2)
    assert kernel.told(folder, "b", identity=1, links=2) is first
    assert kernel.told(kernel.root, "a", identity=1, links=2) is first
    kernel.nodes.unname(folder, "b")
    assert (first.is_named, first.name, first.entry.links) == (True, "a", 1)
    kernel.nodes.unname(kernel.root, "a")
    assert not first.is_named
    kernel.forgets()
    assert kernel.knows_nothing()


def test_names_of_one_file_are_forgotten_with_it() -> None:
    kernel = Kernel()
    folder = kernel.folder("d")
    first = kernel.told(kernel.root, "a", identity=1, links=2)
    kernel.told(folder, "b", identity=1, links=2)
    kernel.forgets()
    assert kernel.knows_nothing()
    again = kernel.told(kernel.folder("d"), "b", identity=1, links=2)
    assert again is not first
    kernel.forgets()
    assert kernel.knows_nothing()
