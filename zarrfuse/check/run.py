"""`zarrfuse check`: the command. Used by `cli`.

Owns the exit codes. It must not know how findings are found or shown.
"""

import sys

from zarrfuse.check.batches import Workers
from zarrfuse.check.report import Document, Lines, progress_of
from zarrfuse.check.source import WithoutMounts, node_around, open_source
from zarrfuse.check.survey import Survey
from zarrfuse.check.unfinished import finish
from zarrfuse.config import RemoteConfig
from zarrfuse.errors import JobsFailed, SourceError, ZarrfuseError, text_of
from zarrfuse.jobs.opening import open_jobs
from zarrfuse.stores.base import Store
from zarrfuse.stores.opening import printable_source

CLEAN, FOUND, NOT_READABLE, INTERRUPTED = 0, 1, 2, 130
"""The exit codes: nothing is wrong, something is, the source cannot be opened or the workers failed,
Ctrl-C."""


def run(
    source: str,
    *,
    deep: bool,
    as_json: bool,
    repair: bool = False,
    remote: RemoteConfig | None = None,
    processes: int = 1,
    scheduler: str | None = None,
) -> int:
    """Check a source, print the findings, and return the exit code.

    `repair`: first finish interrupted writes. With `deep`, chunks are read by `processes` processes, or by
    the workers of the Dask cluster of `scheduler`.
    """
    try:
        if not deep or (processes == 1 and scheduler is None):
            return _run(source, deep=deep, as_json=as_json, repair=repair, remote=remote)
        with open_jobs(processes, scheduler) as jobs:
            workers = Workers(jobs, source, remote)
            return _run(
                source, deep=True, as_json=as_json, repair=repair, remote=remote, workers=workers
            )
    except JobsFailed as error:
        return _not_readable(error)


def _run(
    source: str,
    *,
    deep: bool,
    as_json: bool,
    repair: bool,
    remote: RemoteConfig | None,
    workers: Workers | None = None,
) -> int:
    try:
        store = _repaired(source, remote) if repair else open_source(source, remote)
    except (ZarrfuseError, OSError) as error:
        return _not_readable(error)
    source = printable_source(source)
    if isinstance(store, WithoutMounts):
        for mount in store.left_out.values():
            left_out = f"{mount.mountpoint} is a mount of {mount.source}, and is left out"
            print(f"zarrfuse: {left_out}", file=sys.stderr)
    survey = Survey(store)
    lines = None if as_json else Lines()
    report = lines or Document(source)
    complete = False
    try:
        for finding in survey.shallow():
            report.add(finding)
        if deep and survey.chunks:
            with progress_of(survey, lines):
                for finding in survey.deep(workers):
                    report.add(finding)
        complete = True
    except KeyboardInterrupt:
        return INTERRUPTED
    except (ZarrfuseError, OSError) as error:
        if isinstance(error, OSError) and (survey.nodes or isinstance(error, BrokenPipeError)):
            raise  # it may be an error of the output
        return _not_readable(error)
    finally:
        if survey.nodes or as_json:
            report.end(survey, complete=complete)
        store.close()
    if not survey.nodes:
        message = f"there is no Zarr array or group in {source}{node_around(source)}"
        return _not_readable(SourceError(message))
    return FOUND if report.counts.errors or report.counts.warnings else CLEAN


def _repaired(source: str, remote: RemoteConfig | None) -> Store:
    """The store to check, after interrupted writes were finished."""
    store = open_source(source, remote)  # first, since it refuses some sources
    try:
        finished, deleted = finish(source, remote)
    except BaseException:
        store.close()
        raise
    for problem in deleted:
        print(f"zarrfuse: {problem}: the interrupted write is deleted", file=sys.stderr)
    if finished:
        writes = "an interrupted write" if finished == 1 else f"{finished:,} interrupted writes"
        print(f"zarrfuse: finished {writes}", file=sys.stderr)
    return store


def _not_readable(error: Exception) -> int:
    sentence = str(error) if isinstance(error, ZarrfuseError) else text_of(error)
    print(f"zarrfuse: {sentence}", file=sys.stderr)
    return NOT_READABLE
