"""The command `index`. Used by `app`: owns its options, and what it prints at the end."""

from typing import Annotated

import typer

from zarrfuse.cli.arguments import path_argument
from zarrfuse.cli.remote import RemoteOptions, with_remote_options
from zarrfuse.cli.saying import interruptible, say


@with_remote_options
def index(
    folder: Annotated[str, path_argument("FOLDER", "A folder of TIFF or HDF5 files.")],
    pattern: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            help="The names of the files, with fields for numbers, such as 't{t}/z{z}_y{y}_x{x}.tif', or "
            "words: '{c:DAPI|GFP}'. By default the numbers that differ.",
        ),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(
            metavar="DATASET",
            help="Where to write it; by default FOLDER.zarr, or FOLDER itself if its files have the names "
            "of chunks.",
        ),
    ] = None,
    link: Annotated[
        bool, typer.Option("--link", help="Make hard links, or else reflinks; the default.")
    ] = False,
    copy: Annotated[bool, typer.Option("--copy", help="Make reflinks, or else copies.")] = False,
    move: Annotated[
        bool,
        typer.Option("--move", help="Delete the files in FOLDER once the dataset is complete."),
    ] = False,
    dims: Annotated[
        str | None,
        typer.Option(metavar="NAME,...", help="The names of all dimensions, such as t,z,y,x."),
    ] = None,
    ngff: Annotated[
        bool,
        typer.Option("--ngff", help="Write an OME-NGFF 0.5 image, also of files without levels."),
    ] = False,
    dataset: Annotated[
        str | None, typer.Option(metavar="NAME", help="The dataset in each HDF5 file.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Read all headers, and write nothing.")
    ] = False,
    delete: Annotated[
        bool,
        typer.Option(
            "--delete", help="Delete chunks without a file, also if they are the last copies."
        ),
    ] = False,
    jobs: Annotated[
        int, typer.Option(metavar="N", min=1, help="Work in N processes.", show_default=False)
    ] = 1,
    scheduler: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="A Dask scheduler, such as tcp://host:8786."),
    ] = None,
    *,
    remote: RemoteOptions,
) -> None:
    """Make a Zarr array of the files in FOLDER. Their pixels stay where they are."""
    from zarrfuse.indexing.options import options_of  # noqa: PLC0415
    from zarrfuse.indexing.progress import OnTerminal  # noqa: PLC0415
    from zarrfuse.indexing.run import index as run  # noqa: PLC0415
    from zarrfuse.progress import amount, counted  # noqa: PLC0415

    if link + copy + move > 1:
        raise typer.BadParameter("only one of --link, --copy and --move can be given")
    options = options_of(
        folder,
        out,
        pattern=pattern,
        dims=None if dims is None else [name.strip() for name in dims.split(",")],
        way="copy" if copy else "move" if move else "link",
        ngff=ngff,
        dataset=dataset,
        dry_run=dry_run,
        delete=delete,
        jobs=jobs,
        scheduler=scheduler,
        remote=remote.config(),
    )
    with interruptible():
        summary = run(options, OnTerminal())
    if summary is None:
        raise typer.Exit(1)
    array = ", ".join(f"{name}={n}" for name, n in zip(summary.names, summary.shape, strict=True))
    done = "would be" if dry_run else "is"
    if summary.files:
        files = f"{counted(summary.files, 'file')}, {amount(summary.file_bytes)}"
    else:
        files = "the files that it had"
    if summary.read:
        read = f"read {amount(summary.header_bytes)} of headers of {counted(summary.read, 'file')}"
    else:
        read = "no file is new or has changed"
    say(f"{summary.out} {done} an array ({array}), {summary.data_type}, of {files}; {read}")
