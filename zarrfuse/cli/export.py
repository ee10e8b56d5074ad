"""The command `export`. Used by `app`: owns its options, its exit codes, and what it prints.

It must not know how files are written.
"""

from typing import Annotated

import typer

from zarrfuse.cli.arguments import path_argument
from zarrfuse.cli.remote import RemoteOptions, with_remote_options
from zarrfuse.cli.saying import interruptible, say
from zarrfuse.errors import SourceError

_EXIT_NO_ARRAY = 2


@with_remote_options
def export(
    array: Annotated[
        str, path_argument("ARRAY", "A Zarr array: SOURCE/PATH, or a source that is one.")
    ],
    folder: Annotated[str, path_argument("FOLDER", "Where to write it: a new or empty folder.")],
    file_format: Annotated[
        str, typer.Option("--format", metavar="FORMAT", help="The format of files: tiff or hdf5.")
    ] = "tiff",
    compression: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="none, zstd, deflate or lzma; by default that of the array where files can have it, "
            "else zstd, in HDF5 deflate.",
        ),
    ] = None,
    shard: Annotated[
        str | None,
        typer.Option(metavar="SHAPE", help="The shape of a file; by default that of a chunk."),
    ] = None,
    tile: Annotated[
        str | None,
        typer.Option(metavar="HEIGHT,WIDTH", help="By default that of inner chunks, or of chunks."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be written.")
    ] = False,
    *,
    remote: RemoteOptions,
) -> None:
    """Write ARRAY to FOLDER as TIFF or HDF5 files, and shards.

    They are the chunks of a Zarr array. The exit code is 2 if ARRAY is no array, or cannot be opened.
    """
    import logging  # noqa: PLC0415

    from zarrfuse.exporting.plan import Options, parse_shape  # noqa: PLC0415
    from zarrfuse.exporting.progress import shown  # noqa: PLC0415
    from zarrfuse.exporting.run import export_array  # noqa: PLC0415

    remote_config = remote.config()
    options = Options(
        file_format,
        compression,
        None if shard is None else parse_shape(shard, "--shard"),
        None if tile is None else parse_shape(tile, "--tile"),
    )
    # Errors are printed as sentences.
    logging.getLogger("zarrfuse").addHandler(logging.NullHandler())
    try:
        with interruptible():
            export_array(
                array, folder, options, remote=remote_config, dry_run=dry_run, told=say, shown=shown
            )
    except SourceError as error:
        say(str(error))
        raise typer.Exit(_EXIT_NO_ARRAY) from None
