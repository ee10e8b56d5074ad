"""Where the operations of `docs/semantics.md` are tried: files and folders of each kind, in each view.

Every place is made anew, in a folder that no mount has been asked for: one store serves all of them.
"""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from builders.documents import array, concat_parts, suffix_keys, v2_keys
from builders.folders import write_keys
from builders.object_server import TestBucket


class Source:
    """A folder of a store as others change it, on the local file system."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def put(self, keys: Mapping[str, bytes]) -> None:
        """Store these."""
        write_keys(self.path, keys)

    def get(self, key: str) -> bytes | None:
        """What is stored under a key."""
        file = self.path / key
        return file.read_bytes() if file.exists() else None

    def make_folder(self, key: str, shown: Path) -> None:
        """Make an empty folder, which a view shows as `shown`."""
        (self.path / key).mkdir(parents=True)

    def space(self) -> int | None:
        """Bytes of the disk that it lies on, used or not; None if nobody knows."""
        found = os.statvfs(self.path)
        return found.f_blocks * found.f_frsize


class ObjectSource(Source):
    """The same in a bucket."""

    def __init__(self, bucket: TestBucket, prefix: str) -> None:
        self._bucket = bucket
        self._prefix = prefix

    def put(self, keys: Mapping[str, bytes]) -> None:
        for key, data in keys.items():
            self._bucket.put(f"{self._prefix}/{key}", data)

    def get(self, key: str) -> bytes | None:
        wanted = f"{self._prefix}/{key}"
        found = self._bucket.ask("GET", query=f"?list-type=2&prefix={quote(wanted)}").decode()
        return self._bucket.get(wanted) if f"<Key>{wanted}</Key>" in found else None

    def make_folder(self, key: str, shown: Path) -> None:
        shown.mkdir(parents=True)

    def space(self) -> int | None:
        return None


HEADER = 4
"""Bytes of the first part of chunks in parts; the second takes the rest."""


Stored = Callable[[Path], bytes | None]


@dataclass
class Place:
    """Two files of one kind and names for more, or folders. `view` is `disk` for a plain folder.

    `source`: its folder of the store. `stored`: what is stored of a name, None for nothing.
    """

    view: str
    source: Source
    stored: Stored
    file: Path
    content: bytes
    make: Callable[[int], bytes]
    """Other contents, by number, that can be stored under such a name."""
    # of files
    other: Path = Path()
    other_content: bytes = b""
    new: Path = Path()
    beside: Path = Path()
    """A new name in another folder."""
    temporary: Path = Path()
    """A new name in the same folder that is that of an ordinary file."""
    elsewhere: Path | None = None
    """The new name, in another view."""
    patch: tuple[int, bytes] = (7, b"!?")
    """An offset, and bytes that may be written there."""
    tail: bytes = b"+tail"
    """Bytes that may be written at the end."""
    unfit: bytes | None = b""
    """Bytes that may be no content of such a file; None: all may be."""
    may_be_empty: bool = True
    is_rewritten: bool = False
    """Whether what is shown is written anew from what is stored."""
    # of folders
    full: Path = Path()
    """The folder of `file`, which can be deleted and moved."""
    empty: Path = Path()
    absent: Path = Path()
    nowhere: Path = field(default=Path("/nowhere"))


def bytes_of(number: int) -> bytes:
    """The content of a file of any bytes."""
    return b"content %d of some length, " % number * (number + 1)


def document_of(number: int) -> bytes:
    """A metadata document, as zarr-python lays it out."""
    attributes = {"text": "x" * 30 * (number + 1), "number": number}
    members = {"attributes": attributes, "zarr_format": 3, "node_type": "group"}
    return json.dumps(members, indent=2).encode()


_TEXT_AT = document_of(0).index(b"xxx") + 3
"""The offset of what can be changed in a document."""


def _stored_in(shown: Path, source: Source, parts: tuple[str, ...] = ("",)) -> Stored:
    """What is stored of a name below `shown`: the bytes of its parts, one after the other."""

    def stored(path: Path) -> bytes | None:
        key = path.relative_to(shown).as_posix()
        found = [source.get(key + part) for part in parts]
        there = [data for data in found if data is not None]
        assert len(there) in (0, len(parts)), f"{path} is half stored"
        return b"".join(there) if there else None

    return stored


def ordinary(view: str, shown: Path, source: Source, *, elsewhere: Path | None = None) -> Place:
    """Files and folders that are no matter of Zarr; `shown` is where a view shows `source`."""
    keys = {"README": bytes_of(5), "other.txt": bytes_of(6), "full/1": bytes_of(7)}
    keys |= {f"full/{number}": b"." for number in range(2, 9)}
    source.put(keys)
    for name in ("beside", "empty"):
        source.make_folder(name, shown / name)
    return Place(
        view,
        source,
        _stored_in(shown, source),
        file=shown / "README",
        content=bytes_of(5),
        make=bytes_of,
        other=shown / "other.txt",
        other_content=bytes_of(6),
        new=shown / "new",
        beside=shown / "beside/moved",
        temporary=shown / "temporary",
        elsewhere=None if elsewhere is None else elsewhere / "new",
    )


def foreign(view: str, shown: Path, source: Source, *, elsewhere: Path | None = None) -> Place:
    """Ordinary files among the chunks of an array."""
    keys = {"zarr.json": array((8, 8)), "c/0/0": b"abcd", "c/1/0": b"abcd"}
    keys |= {"c/0/0.1.partial": bytes_of(5), "c/0/0.2.partial": bytes_of(6)}
    source.put(keys)
    return _foreign(view, shown, source, elsewhere)


def _foreign(view: str, shown: Path, source: Source, elsewhere: Path | None) -> Place:
    return Place(
        view,
        source,
        _stored_in(shown, source),
        file=shown / "c/0/0.1.partial",
        content=bytes_of(5),
        make=bytes_of,
        other=shown / "c/0/0.2.partial",
        other_content=bytes_of(6),
        new=shown / "c/0/0.3.partial",
        beside=shown / "c/1/0.3.partial",
        temporary=shown / "c/0/0.4.partial",
        elsewhere=None if elsewhere is None else elsewhere / "c/0/0.3.partial",
    )


def loose(view: str, shown: Path, source: Source, *, elsewhere: Path | None = None) -> Place:
    """Files in a chunk folder that stands for no stored one: they are kept by the mount alone."""
    keys = {"zarr.json": array((8, 8), keys=v2_keys()), "0.0": b"abcd", "1.0": b"abcd"}
    source.put(keys)
    place = _foreign(view, shown, source, elsewhere)
    for path, data in ((place.file, place.content), (place.other, place.other_content)):
        path.write_bytes(data)
    place.stored = lambda path: path.read_bytes() if path.exists() else None
    if elsewhere is not None:
        place.elsewhere = elsewhere / "new"
    return place


def chunk(view: str, shown: Path, source: Source, *, elsewhere: Path | None = None) -> Place:
    """Chunks of an array that are stored as they are."""
    source.put({"zarr.json": array((8, 8)), **_chunks("", ("",))})
    return _chunk_place(view, shown, source, "", ("",), elsewhere)


def dotted(view: str, shown: Path, source: Source, *, elsewhere: Path | None = None) -> Place:
    """Chunks that are stored under keys without folders; for `plain`."""
    keys = {key[2:].replace("/", "."): data for key, data in _chunks("", ("",)).items()}
    source.put({"zarr.json": array((8, 8), keys=v2_keys()), **keys})

    place = _chunk_place(view, shown, source, "", ("",), None)
    place.stored = lambda path: source.get(".".join(path.relative_to(shown).parts[1:]))
    if elsewhere is not None:
        place.elsewhere = elsewhere / "0.2"
    return place


def parts(view: str, shown: Path, source: Source, *, elsewhere: Path | None = None) -> Place:
    """Chunks of an array that are stored in two parts, under keys with a suffix."""
    suffixes = (".head", ".body")
    transformer = concat_parts((suffixes[0], HEADER), suffixes[1])
    document = array((8, 8), keys=suffix_keys(".tif"), transformers=[transformer])
    source.put({"zarr.json": document, **_chunks(".tif", suffixes)})
    suffix = "" if view == "plain" else ".tif"
    place = _chunk_place(view, shown, source, suffix, suffixes, elsewhere)
    place.unfit = b"123"
    place.may_be_empty = False
    if elsewhere is not None:
        place.elsewhere = elsewhere / "c/0/2"
    return place


def _chunks(suffix: str, parts: tuple[str, ...]) -> dict[str, bytes]:
    stored = {}
    for key, number in (("c/0/0", 5), ("c/0/1", 6), ("c/1/0", 7)):
        data = bytes_of(number)
        if len(parts) == 1:
            stored[f"{key}{suffix}"] = data
        else:
            stored |= {f"{key}{suffix}{parts[0]}": data[:HEADER]}
            stored |= {f"{key}{suffix}{parts[1]}": data[HEADER:]}
    return stored


def _chunk_place(
    view: str,
    shown: Path,
    source: Path,
    suffix: str,
    parts: tuple[str, ...],
    elsewhere: Path | None,
) -> Place:
    own_suffix = ".tif" if view == "plain" and len(parts) > 1 else ""
    return Place(
        view,
        source,
        _stored_in(shown, source, tuple(own_suffix + part for part in parts)),
        file=shown / f"c/0/0{suffix}",
        content=bytes_of(5),
        make=bytes_of,
        other=shown / f"c/0/1{suffix}",
        other_content=bytes_of(6),
        new=shown / f"c/0/2{suffix}",
        beside=shown / f"c/1/1{suffix}",
        temporary=shown / f"c/0/0{suffix}.3f2a.partial",
        elsewhere=None if elsewhere is None else elsewhere / f"c/0/2{suffix}",
        unfit=None,
    )


def document(view: str, shown: Path, source: Source, *, elsewhere: Path | None = None) -> Place:
    """Metadata documents of groups."""
    source.put({"g/zarr.json": document_of(5), "h/zarr.json": document_of(6)})
    for name in ("n", "m"):
        source.make_folder(name, shown / name)
    return Place(
        view,
        source,
        _stored_in(shown, source),
        file=shown / "g/zarr.json",
        content=document_of(5),
        make=document_of,
        other=shown / "h/zarr.json",
        other_content=document_of(6),
        new=shown / "n/zarr.json",
        beside=shown / "m/zarr.json",
        temporary=shown / "g/zarr.json.3f2a.partial",
        elsewhere=None if elsewhere is None else elsewhere / "n/zarr.json",
        patch=(_TEXT_AT, b"yz"),
        tail=b"\n",
        unfit=b'{"zarr_format": 3, ',
        is_rewritten=view == "plain",
    )


def folders(view: str, shown: Path, source: Source, *, elsewhere: Path | None = None) -> Place:
    """Folders that are no matter of Zarr."""
    place = ordinary(view, shown, source)
    place.file, place.content = shown / "full/1", bytes_of(7)
    place.full, place.empty = shown / "full", shown / "empty"
    place.absent, place.nowhere = shown / "absent", shown / "absent/folder"
    return place


def nodes(view: str, shown: Path, source: Source, *, elsewhere: Path | None = None) -> Place:
    """Folders of groups."""
    place = document(view, shown, source)
    place.full, place.empty = shown / "g", shown / "n"
    place.absent, place.nowhere = shown / "absent", shown / "absent/folder"
    return place


def chunk_folders(
    view: str, shown: Path, source: Source, *, elsewhere: Path | None = None
) -> Place:
    """Folders of chunks that are stored as they are."""
    return _of_chunks(chunk(view, shown, source))


def part_folders(view: str, shown: Path, source: Source, *, elsewhere: Path | None = None) -> Place:
    """Folders of chunks that are stored in parts."""
    return _of_chunks(parts(view, shown, source))


def _of_chunks(place: Place) -> Place:
    place.full = place.file.parent
    above = place.full.parent
    place.empty, place.absent = above / "2", above / "3"
    place.nowhere = above / "3"
    place.source.make_folder("c/2", place.empty)
    return place


Maker = Callable[..., Place]

FILE_PLACES: dict[str, tuple[tuple[str, Maker], ...]] = {
    "ordinary file": (
        *(("raw", ordinary), ("chunks", ordinary), ("plain", ordinary)),
        *(("chunks", foreign), ("plain", foreign), ("plain", loose)),
    ),
    "chunk": (
        *(("chunks", chunk), ("plain", chunk), ("plain", dotted)),
        *(("chunks", parts), ("plain", parts)),
    ),
    "document": (("chunks", document), ("plain", document)),
    "in `images`": (("images", ordinary), ("images", document)),
}
"""By column of the table of files: the views and makers of its places."""

FOLDER_PLACES: dict[str, tuple[tuple[str, Maker], ...]] = {
    "folder": (
        *(("raw", folders), ("chunks", folders), ("plain", folders)),
        *(("chunks", nodes), ("plain", nodes)),
    ),
    "folder of chunks": (
        *(("chunks", chunk_folders), ("plain", chunk_folders)),
        *(("chunks", part_folders), ("plain", part_folders)),
    ),
    "in `images`": (("images", folders), ("images", nodes)),
}
"""The same of the table of folders."""

OBJECT_FILE_PLACES: dict[str, tuple[tuple[str, Maker], ...]] = {
    "ordinary file": (("raw", ordinary),),
    "chunk": (("chunks", parts),),
    "document": (("chunks", document),),
}
OBJECT_FOLDER_PLACES: dict[str, tuple[tuple[str, Maker], ...]] = {
    "folder": (("raw", folders),),
    "folder of chunks": (("chunks", part_folders),),
}
"""The same for what differs on an object store; fewer, since each request of the tests takes long."""

NAMES = {
    "chunk": "one part",
    "parts": "in parts",
    "dotted": "other keys",
    "foreign": "between chunks",
    "loose": "other keys",
}
"""By maker: what a cell calls those places that it makes an exception of. It may name a view, too."""

MAKERS = (ordinary, foreign, chunk, document)
FOLDER_MAKERS = (folders, nodes, chunk_folders)
"""Those whose places can be made on a plain folder, too."""

OTHER_VIEW = {"raw": "chunks", "chunks": "plain", "plain": "chunks", "images": "chunks"}
"""By view: another one of the same store, which does not have other names."""


def made(view: str, maker: Maker, root: Path, source: Source, name: str) -> Place:
    """A new place called `name`, `source`, in a view of a store that is mounted at `root`."""
    elsewhere = root / OTHER_VIEW[view] / name
    return maker(view, root / view / name, source, elsewhere=elsewhere)


def on_disk(maker: Maker, root: Path) -> Place:
    """The same on a plain folder."""
    os.makedirs(root)
    return maker("disk", root, Source(root))
