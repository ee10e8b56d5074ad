"""One check of one store, with its progress.

Owns the order: first interrupted writes, after which the store is checked as if they were finished (except
in a zip); then all names, sizes and documents; then the bytes of the chunks without faults. For these the
store is listed a second time, which saves a list of all chunks. Used by `run` and `check.findings`.
"""

from collections.abc import Iterator
from functools import partial

from zarrfuse.check.batches import Workers
from zarrfuse.check.findings import Finding
from zarrfuse.check.unfinished import unfinished
from zarrfuse.check.walk import FoundChunk, FoundNode, Walk
from zarrfuse.stores.base import Store
from zarrfuse.transactions.recovered_view import rolled_forward
from zarrfuse.views.chunks.journals import judge_of


class Survey:
    """A check of `store`, with its progress.

    `nodes`, `chunks` and `chunk_bytes`: what was found so far; `bytes_read`: how many of the latter were
    read.
    """

    def __init__(self, store: Store) -> None:
        self._stored = store
        self._store = rolled_forward(store, judge_of(store))
        self.nodes = 0
        self.chunks = 0
        self.chunk_bytes = 0
        self.bytes_read = 0

    def findings(self, *, deep: bool) -> Iterator[Finding]:
        """Everything that is wrong, as it is found; with `deep` also in the bytes of chunks."""
        yield from self.shallow()
        if deep:
            yield from self.deep()

    def shallow(self) -> Iterator[Finding]:
        """Everything that is wrong with names, sizes and documents."""
        yield from unfinished(self._stored)
        for event in Walk(self._store).events():
            if isinstance(event, Finding):
                yield event
            elif isinstance(event, FoundNode):
                self.nodes += 1
            else:
                self.chunks += 1
                self.chunk_bytes += event.chunk.size

    def deep(self, workers: Workers | None = None) -> Iterator[Finding]:
        """Everything that is wrong with the bytes of the chunks without findings in `shallow`.

        `workers`: verify them, in other processes; else it is done here.
        """
        chunks = (event for event in Walk(self._store).events() if isinstance(event, FoundChunk))
        if workers is None:
            yield from self._verified_here(chunks)
        else:
            yield from workers.findings(chunks, self._add)

    def _verified_here(self, chunks: Iterator[FoundChunk]) -> Iterator[Finding]:
        from zarrfuse.check.deep import Verifier  # noqa: PLC0415  # with numpy

        verifier = Verifier(self._store)
        for found in chunks:
            chunk = found.chunk
            stop = self.bytes_read + chunk.size
            count = partial(self._count, stop)
            for fault in verifier.faults(found.path, chunk, found.files.encoded, count):
                yield fault.at(found.path, chunk.key)
            self.bytes_read = stop

    def _add(self, read: int) -> None:
        self.bytes_read += read

    def _count(self, stop: int, read: int) -> None:
        self.bytes_read = min(self.bytes_read + read, stop)  # some bytes are read twice
