"""The documents of nodes on a server that lists nothing, fetched once and kept for a while.

Owns which documents are asked for, and for how long what they say is kept: each listing of a folder of
chunks needs the document of its array. Used by `folders`. It must not know what a listing holds.
"""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from cachetools import LRUCache

from zarrfuse import caching
from zarrfuse.errors import NotFound
from zarrfuse.spec.chunk_keys import METADATA_NAMES
from zarrfuse.spec.paths import join, relative, split
from zarrfuse.stores.remote.requests import Found, TryAgain
from zarrfuse.stores.unlisted.names import Known, known_of

LARGEST_DOCUMENT = 64 << 20
"""A larger document is not read. The largest consolidated metadata have some ten MB."""

V3 = ("zarr.json",)
V2 = (".zarray", ".zgroup", ".zattrs")
CONSOLIDATED_V2 = ".zmetadata"

_MOST_KEPT = 4096


class Files(Protocol):
    """The files of a store, each asked for by its key. Raises as `remote.requests.Requests`."""

    html_is_missing: bool
    """Set when a page in HTML came where a document was asked for: then it means that there is none."""

    def title(self, key: str) -> str:
        """A key as messages name it."""

    async def find(self, key: str) -> Found:
        """The file with this key. Raises `NotFound`."""

    async def fetch(self, key: str, limit: int) -> tuple[bytes, Found]:
        """A whole file. Raises `NotFound`, and `NotSupported` for one of more than `limit` bytes."""


class Step(NamedTuple):
    """A path, and what its documents say."""

    path: str
    known: Known


class NodeDocuments:
    """What the documents of each path say. For one event loop.

    `kept_s`: for how long that is kept. `limit_s`: for how long documents are waited for. `shared_s`:
    who asks later than this does not wait for the same requests, which may have stalled.
    """

    def __init__(self, files: Files, kept_s: float, limit_s: float, shared_s: float = 2.0) -> None:
        self._files = files
        self._limit_s = limit_s
        self._shared_s = shared_s
        self._kept_s = kept_s
        self._kept: LRUCache[str, tuple[Known, float]] = LRUCache(_MOST_KEPT)
        self._fetched: dict[str, tuple[asyncio.Task[Known], float]] = {}

    async def way(self, path: str) -> Sequence[Step]:
        """The steps from the root to a path, at most to the first array: below it are chunks only."""
        steps: list[Step] = []
        here = ""
        for name in ("", *(path.split("/") if path else ())):
            here = join(here, name) if name else here
            steps.append(Step(here, await self._at(here, steps)))
            if steps[-1].known.array is not None:
                break
        return steps

    def saw(self, key: str, found: Found | None) -> None:
        """Drop what is kept at and below the folder of a file that is another now; `found`: None if so."""
        folder, name = split(key)
        known = self._known(folder)
        if known is None:
            return
        is_new = name in METADATA_NAMES and not known.files
        if found is None or is_new or known.files.get(name, found) not in (None, found):
            start = f"{folder}/" if folder else ""
            for path in list(self._kept):  # nodes below may be known from a copy in it
                if path == folder or path.startswith(start):
                    self._kept.pop(path, None)

    async def _at(self, path: str, above: Sequence[Step]) -> Known:
        known = self._known(path)
        if known is not None:
            return known
        now = asyncio.get_running_loop().time()
        task, since = self._fetched.get(path, (None, 0.0))
        if task is None or now - since > self._shared_s:
            task = asyncio.create_task(self._limited(path, tuple(above)))
            self._fetched[path] = task, now
            asked_at = caching.now()
            task.add_done_callback(lambda done: self._note(path, done, asked_at))
        # Whoever gives up waiting does not end the request for the others.
        return await asyncio.shield(task)

    def _known(self, path: str) -> Known | None:
        known, asked_at = self._kept.get(path, (None, 0.0))
        return known if caching.is_fresh(asked_at, self._kept_s) else None

    def _note(self, path: str, task: "asyncio.Task[Known]", asked_at: float) -> None:
        if self._fetched.get(path, (None, 0.0))[0] is task:
            del self._fetched[path]
        if not task.cancelled() and task.exception() is None:
            self._kept[path] = task.result(), asked_at

    async def _limited(self, path: str, above: Sequence[Step]) -> Known:
        try:
            async with asyncio.timeout(self._limit_s):
                return await self._load(path, above)
        except TimeoutError:
            title = self._files.title(path)
            raise TryAgain(f"{title}: no documents within {self._limit_s:g} s") from None

    async def _load(self, path: str, above: Sequence[Step]) -> Known:
        for step in reversed(above):
            copy = step.known.copies.get(relative(path, step.path))
            if copy is not None:
                return known_of(copy, dict.fromkeys(copy))
        if not path:
            return await self._fetch(path, (*V3, *V2, CONSOLIDATED_V2))
        # The format of the nearest node above is tried first, the other one if there is no node then.
        formats = [name for step in above for name in step.known.files]
        is_v2 = bool(formats) and formats[-1] not in V3
        known = await self._fetch(path, V2 if is_v2 else V3)
        if not known.files:
            known = await self._fetch(path, V3 if is_v2 else V2)
        return known

    async def _fetch(self, path: str, names: Sequence[str]) -> Known:
        answers = await asyncio.gather(*(self._document(join(path, name)) for name in names))
        found = {name: answer for name, answer in zip(names, answers, strict=True) if answer}
        if ".zgroup" in found and CONSOLIDATED_V2 not in names:
            consolidated = await self._document(join(path, CONSOLIDATED_V2))
            if consolidated:
                found[CONSOLIDATED_V2] = consolidated
        documents = {name: data for name, (data, _) in found.items()}
        return known_of(documents, {name: one for name, (_, one) in found.items()})

    async def _document(self, key: str) -> tuple[bytes, Found] | None:
        try:
            data, found = await self._files.fetch(key, LARGEST_DOCUMENT)
        except NotFound:
            return None
        if data.lstrip().startswith(b"<"):  # some servers send a page for what is missing
            self._files.html_is_missing = True
            return None
        return data, found
