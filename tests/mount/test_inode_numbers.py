"""Numbers that the kernel was told of stand for their files until it has given them back, and no longer."""

from dataclasses import dataclass, field

from zarrfuse.inodes import Directory, InodeTable
from zarrfuse.stores.base import Entry, Kind
from zarrfuse.views.raw import RawFolder


class _Nothing(RawFolder):
    """A folder of no store."""

    def __init__(self, path: str = "") -> None:
        self.path = path

    def child(self, name: str) -> "_Nothing":
        return _Nothing(f"{self.path}/{name}")


@dataclass
class Kernel:
    """A table, and what the kernel has been told of."""

    table: InodeTable = field(
        default_factory=lambda: InodeTable(_Nothing(), Entry("", Kind.FOLDER, 0, 0))
    )
    told_of: list[int] = field(default_factory=list)

    def told(self, directory: Directory, name: str, kind: Kind = Kind.FILE) -> int:
        """The number of a name that it looks up."""
        inode = directory.inode_of(directory.put(Entry(name, kind, 0, 0)))
        self.table.looked_up_one(inode)
        self.told_of.append(inode)
        return inode

    def folder(self, name: str, *, parent: Directory | None = None) -> Directory:
        """A folder that it looks up."""
        parent = parent or self.table.root
        return self.table.directory(self.told(parent, name, Kind.FOLDER))

    def stored_anew(self, source: Directory, name: str, target: Directory, new_name: str) -> None:
        """It renames what is stored anew by that, under another number."""
        target.retire(new_name, 0)
        self.table.renamed(source, name, target, new_name, slot=source.slots.get(name))
        source.retire(name, 0)

    def forgets(self, *inodes: int) -> None:
        """It gives numbers back; without any, all of them."""
        for inode in inodes or tuple(self.told_of):
            self.told_of.remove(inode)
            self.table.forget([(inode, 1)])

    def knows_nothing(self) -> bool:
        """Whether the table is as it was at first."""
        root = self.table.root
        return not (len(self.table) or root.entries or root.children or root.known)


def test_a_folder_is_freed_when_the_kernel_has_given_back_the_names_that_moved_in_it() -> None:
    kernel = Kernel()
    table, folder = kernel.table, kernel.folder("d")
    for number in range(3):
        inode = kernel.told(folder, f"{number}.partial")
        slot = folder.slots[f"{number}.partial"]
        table.move(folder, slot, folder, Entry(str(number), Kind.FILE, 0, 0))
        assert folder.inode_of(folder.slots[str(number)]) == inode
        assert table.place(inode) == (folder, folder.slots[str(number)])
    kernel.forgets()
    assert kernel.knows_nothing()


def test_a_number_that_the_kernel_does_not_know_does_not_move_with_its_name() -> None:
    # It takes the number of another name for this one, which was stored anew when it was renamed.
    kernel = Kernel()
    root, folder = kernel.table.root, kernel.folder("d")
    slot = folder.put(Entry("0", Kind.FILE, 0, 0))
    moved = Entry("a", Kind.FILE, 0, 0)
    kernel.table.move(folder, slot, root, moved)
    assert "0" not in folder.slots
    slot = root.put(moved)
    assert kernel.table.place(root.inode_of(slot)) == (root, slot)


def test_a_number_that_the_kernel_does_not_know_stands_for_no_other_name() -> None:
    kernel = Kernel()
    first, second, third = (kernel.folder(name) for name in "abc")
    kernel.told(first, "draft")
    kernel.stored_anew(first, "draft", second, "zarr.json")
    slot = second.put(Entry("zarr.json", Kind.FILE, 0, 0))  # `stat` of the first number
    kernel.stored_anew(second, "zarr.json", third, "zarr.json")
    assert slot not in second.became
    kernel.forgets()
    assert kernel.knows_nothing()


def test_a_folder_is_freed_when_a_name_in_it_is_deleted_that_had_another_number() -> None:
    kernel = Kernel()
    first, second = kernel.folder("a"), kernel.folder("b")
    below = kernel.folder("x", parent=second)
    inode = kernel.told(first, "draft")
    kernel.stored_anew(first, "draft", second, "zarr.json")
    kernel.forgets(below.inode)
    second.retire("zarr.json", 0)
    kernel.table.removed(second, "zarr.json")
    kernel.forgets(inode)
    kernel.forgets()
    assert kernel.knows_nothing()


def test_a_folder_that_moved_and_was_forgotten_has_the_number_that_is_told_next() -> None:
    kernel = Kernel()
    first, second = kernel.folder("p"), kernel.folder("q")
    folder = kernel.folder("f", parent=first)
    inside = kernel.told(folder, "x")
    kernel.table.hold(inside)
    kernel.table.move(first, first.slots["f"], second, Entry("f", Kind.FOLDER, 0, 0))
    kernel.forgets(folder.inode)
    again = kernel.told(second, "f", Kind.FOLDER)
    assert kernel.table.directory(again) is folder
    kernel.table.let_go(inside)
    kernel.forgets(inside)  # while a name in there is being looked up
    kernel.told(folder, "y")
    kernel.forgets()
    assert kernel.knows_nothing()
