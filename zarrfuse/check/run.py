"""`zarrfuse check`: the command. Used by `cli`.

Owns the exit codes and the order of things for a person who waits. It must not know how anything is
found or shown.
"""

import json
import os
import sys

from zarrfuse import mounts
from zarrfuse.check.report import Document, Lines, progress_of
from zarrfuse.check.survey import Survey
from zarrfuse.errors import SourceError, ZarrfuseError, text_of
from zarrfuse.stores.opening import open_store
from zarrfuse.views.control import CONTROL_NAME

CLEAN, FOUND, NOT_READABLE, INTERRUPTED = 0, 1, 2, 130
"""The exit codes: nothing is wrong, something is, the source cannot be looked at, Ctrl-C."""


def run(source: str, *, deep: bool, as_json: bool) -> int:
    """Check a source and show what is wrong with it; the exit code."""
    try:
        _refuse_merged(source)
        store = open_store(source)
    except (ZarrfuseError, OSError) as error:
        return _not_readable(error)
    survey = Survey(store)
    lines = None if as_json else Lines()
    report = lines or Document(source)
    complete = False
    try:
        for finding in survey.shallow():
            report.add(finding)
        if deep and survey.chunks:
            with progress_of(survey, lines):
                for finding in survey.deep():
                    report.add(finding)
        complete = True
    except KeyboardInterrupt:
        return INTERRUPTED
    except (ZarrfuseError, OSError) as error:
        if survey.nodes or isinstance(error, BrokenPipeError):
            raise
        return _not_readable(error)
    finally:
        if survey.nodes or as_json:
            report.end(survey, complete=complete)
        store.close()
    if not survey.nodes:
        return _not_readable(SourceError(f"there is no Zarr array or group in {source}"))
    return FOUND if report.counts.errors or report.counts.warnings else CLEAN


def _refuse_merged(source: str) -> None:
    """Raises `SourceError` for a path in a `chunks` mount.

    That has the metadata of its source and merged parts: not one of them would be found.
    """
    path = mounts.resolved(source)
    mount = mounts.mount_around(path)
    if mount is None:
        return
    if mounts.answer_of(mount.mountpoint) != 0:
        raise SourceError(f"the mount {mount.mountpoint} does not answer")
    with open(os.path.join(mount.mountpoint, CONTROL_NAME, "status.json"), "rb") as status:
        view = json.load(status)["view"]
    below = os.path.relpath(path, mount.mountpoint).partition("/")[0]
    if view == "chunks" or (view == "all" and below in (".", "chunks")):
        raise SourceError(
            f"{source} lies in a mount that shows parts merged: check {mount.source}, or a raw "
            "or plain view of it"
        )


def _not_readable(error: Exception) -> int:
    sentence = str(error) if isinstance(error, ZarrfuseError) else text_of(error)
    print(f"zarrfuse: {sentence}", file=sys.stderr)
    return NOT_READABLE
