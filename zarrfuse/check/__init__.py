"""`zarrfuse check`: everything that is wrong with a dataset.

`findings` is the same for programs. `walk` walks a store and passes each document to `documents`
(`documents_v2` for Zarr v2) and each folder of an array to `chunks`; `deep` reads the chunks whose names
and sizes are right, and `batches` has that done by other processes; `unfinished` finds interrupted writes.
`source` opens the source, `run` is the command, `report` prints findings. `rules` has the rules that they
cite, which `docs/check.md` lists.

Everything is a generator: a finding is printed at once, and not kept. Used by `cli`. It must not use
private names of other packages.
"""

from collections.abc import Iterator

from zarrfuse.check.findings import Finding, Rule

__all__ = ["Finding", "Rule", "findings"]


def findings(source: str, *, deep: bool = False) -> Iterator[Finding]:
    """Yield everything that is wrong with a folder or a zip file, as it is found.

    Mounts of zarrfuse in the folder are left out. With `deep` every chunk is read, after everything else
    was checked. Raises `SourceError` if `source` is neither, or is a mount with merged parts, and what the
    store raises if the root cannot be listed.
    """
    from zarrfuse.check.source import open_source  # noqa: PLC0415
    from zarrfuse.check.survey import Survey  # noqa: PLC0415

    store = open_source(source)
    try:
        yield from Survey(store).findings(deep=deep)
    finally:
        store.close()
