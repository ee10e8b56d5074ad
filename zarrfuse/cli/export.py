"""`zarrfuse export`: the command. Used by `app`: owns its exit codes and what it prints.

It must not know how files are written.
"""

import logging
import sys

from zarrfuse.config import RemoteConfig
from zarrfuse.errors import SourceError
from zarrfuse.exporting.plan import Options, parse_shape
from zarrfuse.exporting.progress import shown
from zarrfuse.exporting.run import export_array

DONE, NO_ARRAY, INTERRUPTED = 0, 2, 130
"""The exit codes; for other errors it is that of all commands."""


def run(
    array: str,
    folder: str,
    *,
    file_format: str,
    compression: str | None,
    shard: str | None,
    tile: str | None,
    dry_run: bool,
    remote: RemoteConfig,
) -> int:
    """Export an array, and return the exit code. Raises `ZarrfuseError`."""
    options = Options(
        file_format,
        compression,
        None if shard is None else parse_shape(shard, "--shard"),
        None if tile is None else parse_shape(tile, "--tile"),
    )
    logging.getLogger("zarrfuse").addHandler(
        logging.NullHandler()
    )  # errors are printed as sentences
    try:
        export_array(array, folder, options, remote=remote, dry_run=dry_run, told=_say, shown=shown)
    except SourceError as error:
        _say(str(error))
        return NO_ARRAY
    except KeyboardInterrupt:
        _say(f"interrupted; the same command goes on with {folder}")
        return INTERRUPTED
    return DONE


def _say(line: str) -> None:
    print(f"zarrfuse: {line}", file=sys.stderr)
