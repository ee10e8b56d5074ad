"""Verifies the bytes of chunks in batches, in other processes, which open the source themselves.

Owns what a batch is, and that findings come in the order of the chunks. Used by `survey`; `run` makes the
`Workers`. It must not know where the processes are.
"""

import os
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

from zarrfuse.check.chunks import Chunk
from zarrfuse.check.findings import Finding
from zarrfuse.check.opened_here import Where, opened
from zarrfuse.check.walk import FoundChunk
from zarrfuse.config import RemoteConfig
from zarrfuse.jobs.base import Jobs
from zarrfuse.shards.encoded import Encoded
from zarrfuse.stores.opening import is_url

_MOST_CHUNKS = 64
_MOST_BYTES = 64 << 20
"""A batch ends with the chunk that reaches one of these: less than a second of work on a disk."""


@dataclass(frozen=True, slots=True)
class _Unverified:
    """A chunk of the array at `path`, and what its codecs say of its bytes."""

    path: str
    chunk: Chunk
    known: Encoded


@dataclass(frozen=True, slots=True)
class _Batch:
    number: int
    chunks: tuple[_Unverified, ...]


@dataclass(frozen=True, slots=True)
class _Verified:
    """What was found in a batch; `read`: the bytes of its chunks."""

    number: int
    findings: list[Finding]
    read: int


class Workers:
    """Verifies chunks of a source with `jobs`; `remote`: how a URL is read."""

    def __init__(self, jobs: Jobs, source: str, remote: RemoteConfig | None = None) -> None:
        self._jobs = jobs
        absolute = source if is_url(source) else os.path.abspath(source)
        self._where = Where(uuid.uuid4().hex, absolute, remote)

    def findings(
        self, chunks: Iterable[FoundChunk], count: Callable[[int], None]
    ) -> Iterator[Finding]:
        """Everything that is wrong with the bytes of the chunks, in their order.

        `count`: called with the number of bytes of each batch. Raises `JobsFailed`, and `SourceError` if a
        worker cannot open the source.
        """
        early: dict[int, _Verified] = {}  # batches that were verified before one that precedes them
        number = 0
        for verified in self._jobs.map(partial(_verify, self._where), _batches(chunks)):
            count(verified.read)
            early[verified.number] = verified
            while number in early:
                yield from early.pop(number).findings
                number += 1


def _batches(chunks: Iterable[FoundChunk]) -> Iterator[_Batch]:
    number, size = 0, 0
    batch: list[_Unverified] = []
    for found in chunks:
        batch.append(_Unverified(found.path, found.chunk, found.files.encoded))
        size += found.chunk.size
        if len(batch) >= _MOST_CHUNKS or size >= _MOST_BYTES:
            yield _Batch(number, tuple(batch))
            number, size, batch = number + 1, 0, []
    if batch:
        yield _Batch(number, tuple(batch))


def _verify(where: Where, batch: _Batch) -> _Verified:
    """Verify the chunks of a batch, in the process that this is called in."""
    from zarrfuse.check.deep import Verifier  # noqa: PLC0415  # with numpy

    with opened(where) as store:
        verifier = Verifier(store)
        found = [
            fault.at(each.path, each.chunk.key)
            for each in batch.chunks
            for fault in verifier.faults(each.path, each.chunk, each.known, _ignore)
        ]
    return _Verified(batch.number, found, sum(each.chunk.size for each in batch.chunks))


def _ignore(read: int) -> None:
    """Bytes are counted when the batch is complete."""
