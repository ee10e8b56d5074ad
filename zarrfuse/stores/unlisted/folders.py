"""The folders of a server that lists nothing, made from what documents say exists.

Owns where the names of a folder come from: the documents of the nodes above and in it, the grid of an
array, and requests for what no document names (labels, the images of `bioformats2raw`). Used by
`http.opening` and `zarr_store.requests`.
"""

import re
from collections.abc import Sequence
from typing import ClassVar

from zarrfuse.errors import NotFound
from zarrfuse.spec.paths import join, name_of, relative
from zarrfuse.stores.remote.requests import Found, Listing
from zarrfuse.stores.unlisted.documents import LARGEST_DOCUMENT, Files, NodeDocuments, Step
from zarrfuse.stores.unlisted.grid import chunk_folder
from zarrfuse.stores.unlisted.names import Known

_OME = "OME"
_OME_XML = "METADATA.ome.xml"
_IMAGE = re.compile(rb"<(?:[A-Za-z_][\w.-]*:)?Image[\s>]")
_MOST_SERIES = 100_000


class UnlistedFolders:
    """Listings made from documents; `kept_s`, `limit_s`: see `NodeDocuments`."""

    lists_all: ClassVar[bool] = False

    def __init__(self, files: Files, kept_s: float, limit_s: float) -> None:
        self._files = files
        self._documents = NodeDocuments(files, kept_s, limit_s)

    async def list(self, path: str) -> Listing:
        """The names in a folder that are known. Raises `NotFound` if nothing says that it is there.

        The folders of chunks are whole: a name outside the grid is not there. All others are not, the
        folder of an array included: a document that nobody names may be in them.
        """
        steps = await self._documents.way(path)
        last, known = steps[-1]
        if known.array is not None:
            folder = relative(path, last)
            listing = chunk_folder(known.array, folder, None if folder else known.files)
            if listing is None:
                raise NotFound(f"no folder {path}: it is not in the grid of the array {last}")
            return listing
        files: dict[str, Found | None] = dict(known.files)
        above = steps[-2].known if len(steps) > 1 else None
        if above is not None and above.is_bioformats2raw and name_of(path) == _OME:
            xml = await self._found(join(path, _OME_XML))
            if xml is not None:
                files[_OME_XML] = xml
        is_named = any(step.known.below.has(relative(path, step.path)) for step in steps[:-1])
        if path and not files and not is_named:
            raise NotFound(f"no folder {path}, or nothing says that it is there")
        return Listing(files, await self._folders(path, steps), is_whole=False)

    def saw(self, key: str, found: Found | None) -> None:
        """See `listing.Folders`."""
        self._documents.saw(key, found)

    async def _folders(self, path: str, steps: Sequence[Step]) -> Sequence[str]:
        known = steps[-1].known
        names: dict[str, None] = {}
        for step in reversed(steps):  # what a node says of itself comes first
            names |= dict.fromkeys(step.known.below.names(relative(path, step.path)))
        is_complete = any(step.known.copies for step in steps)
        if known.has_series and not is_complete:
            names |= dict.fromkeys(await self._series(path))
        if known.may_have_labels and not is_complete and "labels" not in names:
            labels = await self._node(join(path, "labels"))
            if labels is not None:
                names["labels"] = None
        if known.is_bioformats2raw and not is_complete:
            names.pop(_OME, None)
            ome = join(path, _OME)
            if await self._node(ome) is not None or await self._found(join(ome, _OME_XML)):
                names[_OME] = None
        return list(names)

    async def _series(self, path: str) -> Sequence[str]:
        """The folders of the images beside `OME` (OME-NGFF 0.5, bioformats2raw.layout)."""
        ome = await self._node(join(path, _OME))
        if ome is not None and ome.series:
            return [series.partition("/")[0] for series in ome.series]
        try:
            xml, _ = await self._files.fetch(join(path, f"{_OME}/{_OME_XML}"), LARGEST_DOCUMENT)
        except NotFound:
            found: list[str] = []
            while len(found) < _MOST_SERIES:
                name = str(len(found))
                if await self._node(join(path, name)) is None:
                    break
                found.append(name)
            return found
        return [str(number) for number in range(len(_IMAGE.findall(xml)))]

    async def _node(self, path: str) -> Known | None:
        """What the documents of a path say; None if there are none."""
        steps = await self._documents.way(path)
        return steps[-1].known if steps[-1].path == path and steps[-1].known.files else None

    async def _found(self, key: str) -> Found | None:
        try:
            return await self._files.find(key)
        except NotFound:
            return None

    async def is_store(self) -> bool:
        """Whether there is a document of Zarr at the root."""
        return await self._node("") is not None
