"""Commands and options: turns them into config, and errors into one sentence and an exit code.

Each command imports what it needs, so that `mount` starts fast.
"""

import io
import math
import os
import re
import sys
from dataclasses import replace
from typing import Annotated, Any, NoReturn

import typer

from zarrfuse import __version__
from zarrfuse.cli import index as index_command
from zarrfuse.cli.remote import (
    EndpointUrl,
    Header,
    NoSignRequest,
    Profile,
    Region,
    remote_config,
    split_options,
)
from zarrfuse.config import DEFAULT_VIEW, FORMATS, VIEWS, MountConfig, Tuning
from zarrfuse.errors import ZarrfuseError, text_of

EXIT_FAILED = 1
EXIT_NO_ZARR = 2

_SIZE = re.compile(r"([0-9]{1,18})(?:([KMGT])(?:iB)?)?", re.IGNORECASE)
_LONGEST_TIMEOUT_S = 86_400
_UNITS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}

app = typer.Typer(
    name="zarrfuse",
    help="Mount a Zarr store as ordinary files.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """The `zarrfuse` command."""
    for stream in (sys.stdout, sys.stderr):  # names of files need not be UTF-8
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        try:
            app(prog_name="zarrfuse")
        finally:
            if sys.stdout is not None:  # None if standard output was closed from the beginning
                sys.stdout.flush()  # here, because an error at exit would print a traceback
    except ZarrfuseError as error:
        _fail(str(error))
    except BrokenPipeError:  # the reader of the output has gone
        _drop_output()
        sys.exit(EXIT_FAILED)
    except OSError as error:
        _drop_output()
        _fail(f"{error.filename}: {error.strerror}" if error.filename else text_of(error))


def _drop_output() -> None:
    """Drop unwritten output, which would be flushed again, and fail, at exit."""
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(sentence: str) -> NoReturn:
    print(f"zarrfuse: {sentence}", file=sys.stderr)
    sys.exit(EXIT_FAILED)


def _print_version(value: bool) -> None:
    if value:
        print(f"zarrfuse {__version__}")
        raise typer.Exit


@app.callback()
def _top(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Mount a Zarr store as ordinary files."""


def _seconds(text: str, option: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not seconds >= 0:
        raise typer.BadParameter(
            f"{text} is neither a number of seconds nor inf", param_hint=option
        )
    return seconds


def _bytes(text: str, option: str) -> int:
    size = _SIZE.fullmatch(text)
    if size is None:
        raise typer.BadParameter(
            f"{text or 'an empty text'} is not a size such as 268435456, 256M or 1GiB",
            param_hint=option,
        )
    return int(size[1]) << _UNITS[(size[2] or "").upper()]


def _formats(text: str) -> tuple[str, ...]:
    chosen = text.split(",")
    for name in chosen:
        if name not in FORMATS:
            raise typer.BadParameter(
                f"{name or 'an empty name'} is not one of {', '.join(FORMATS)}",
                param_hint="--formats",
            )
    return tuple(name for name in FORMATS if name in chosen)


def _not_empty(path: str) -> str:
    """Refuse an empty path: it is an unset variable, not the current folder."""
    if not path:
        raise typer.BadParameter("must not be empty")
    return path


def _path(name: str, help_: str) -> Any:
    return typer.Argument(metavar=name, help=help_, callback=_not_empty)


Source = Annotated[
    str,
    _path("SOURCE", "A folder, a .zip or .ozx file, s3://BUCKET/PREFIX, or https://HOST/PATH."),
]


@app.command()
def mount(
    source: Source,
    mountpoint: Annotated[str, _path("MOUNTPOINT", "An empty folder.")],
    view: Annotated[
        str,
        typer.Option(
            metavar="VIEW",
            help="What to show: "
            + "; ".join(f"`{name}`, {kind.shows}" for name, kind in VIEWS.items())
            + ".",
        ),
    ] = DEFAULT_VIEW,
    option: Annotated[
        list[str] | None,
        typer.Option(
            "-o",
            metavar="OPT,...",
            help="Options of mount(8) and fuse(8); of a URL, also settings KEY=VALUE of obstore.",
        ),
    ] = None,
    read_write: Annotated[
        bool,
        typer.Option(
            "--read-write",
            help="Allow writing, in the views `chunks`, `plain` and `raw`: a chunk is split into its "
            "parts, and stored whole or not at all.",
        ),
    ] = False,
    spool_dir: Annotated[
        str | None,
        typer.Option(
            metavar="FOLDER",
            help="Folder for chunks that are being written; by default a folder in the store.",
        ),
    ] = None,
    foreground: Annotated[
        bool,
        typer.Option("--foreground", "-f", help="Stay in the foreground, and log to the terminal."),
    ] = False,
    allow_other: Annotated[
        bool, typer.Option("--allow-other", help="Let other users read the mount.")
    ] = False,
    follow_symlinks: Annotated[
        bool,
        typer.Option("--follow-symlinks", help="Follow symlinks that lead out of SOURCE, too."),
    ] = False,
    xattrs: Annotated[
        bool, typer.Option("--xattrs", help="Offer metadata as extended attributes.")
    ] = False,
    cache_ttl: Annotated[
        str | None,
        typer.Option(
            metavar="SECONDS",
            help="How long names and sizes are cached; by default 1 for a folder, 60 for a URL, inf for "
            "a zip. Use inf for what no longer changes.",
        ),
    ] = None,
    formats: Annotated[
        str,
        typer.Option(
            metavar="FORMAT,...",
            help=f"Renderings of the view `images`; by default all: {','.join(FORMATS)}.",
            show_default=False,
        ),
    ] = ",".join(FORMATS),
    cache_size: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Memory for decoded chunks of the view `images` and for blocks of a URL, such as 512M; "
            "by default 256M, or a quarter of memory if that is less.",
        ),
    ] = None,
    cache_dir: Annotated[
        str | None,
        typer.Option(metavar="FOLDER", help="Folder for blocks of a URL, kept across mounts."),
    ] = None,
    cache_disk_size: Annotated[
        str, typer.Option(metavar="SIZE", help="The most bytes in --cache-dir.")
    ] = "10G",
    timeout: Annotated[
        str,
        typer.Option(metavar="SECONDS", help="A request of the store that takes longer fails."),
    ] = "30",
    endpoint_url: EndpointUrl = None,
    region: Region = None,
    no_sign_request: NoSignRequest = False,
    profile: Profile = None,
    header: Header = None,
    log_file: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write the log to FILE.")
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log more.")] = False,
) -> None:
    """Mount SOURCE on MOUNTPOINT, in the background. It is ready when the command returns."""
    from zarrfuse.mounts import command_line, daemon, kernel_mounts  # noqa: PLC0415
    from zarrfuse.stores.opening import is_url, secrets_of  # noqa: PLC0415

    if view not in VIEWS:
        raise typer.BadParameter(f"{view} is not one of {', '.join(VIEWS)}", param_hint="--view")
    if read_write and not VIEWS[view].is_writable:
        raise typer.BadParameter(f"the view {view} is read-only", param_hint="--read-write")
    words = tuple(word for text in option or () for word in text.split(",") if word)
    options, settings = split_options(words) if is_url(source) else (words, ())
    timeout_s = _seconds(timeout, "--timeout")
    if not 0 < timeout_s <= _LONGEST_TIMEOUT_S:
        raise typer.BadParameter(
            f"{timeout} is not between 0 and {_LONGEST_TIMEOUT_S}", param_hint="--timeout"
        )
    remote = remote_config(endpoint_url, region, no_sign_request, profile, header, settings)
    command_line.hide([*secrets_of(source), *(header or ()), *settings])
    problem = daemon.mount(
        MountConfig(
            source=source if is_url(source) else os.path.realpath(source),
            mountpoint=kernel_mounts.resolved(mountpoint),
            view=view,
            options=options,
            read_write=read_write,
            spool_dir=spool_dir and os.path.abspath(spool_dir),
            foreground=foreground,
            allow_other=allow_other,
            follow_symlinks=follow_symlinks,
            xattrs=xattrs,
            cache_ttl_s=None if cache_ttl is None else _seconds(cache_ttl, "--cache-ttl"),
            formats=_formats(formats),
            cache_bytes=None if cache_size is None else _bytes(cache_size, "--cache-size"),
            remote=replace(
                remote,
                cache_dir=cache_dir and os.path.abspath(cache_dir),
                cache_disk_bytes=_bytes(cache_disk_size, "--cache-disk-size"),
            ),
            tuning=Tuning(store_timeout_s=timeout_s),
            log_file=log_file and os.path.abspath(log_file),
            verbose=verbose,
        )
    )
    if problem is not None:
        print(f"zarrfuse: {problem}", file=sys.stderr)


@app.command()
def unmount(
    mountpoint: Annotated[str, _path("MOUNTPOINT", "The folder of the mount.")],
    lazy: Annotated[
        bool,
        typer.Option("--lazy", help="Unmount even if files are open; they stay readable."),
    ] = False,
) -> None:
    """Unmount MOUNTPOINT."""
    from zarrfuse.mounts import kernel_mounts  # noqa: PLC0415

    path = kernel_mounts.resolved(mountpoint)
    mounted = kernel_mounts.mount_at(path)
    if mounted is None or not mounted.type.startswith("fuse"):
        _fail(f"{path} is not mounted")
    process = None if lazy else kernel_mounts.daemon_of(mounted)
    kernel_mounts.unmount(path, lazy=lazy)
    if process is not None:
        kernel_mounts.wait_for_end(process)


@app.command()
def info(
    path: Annotated[str, _path("PATH", "A source, or a path in a mount.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    endpoint_url: EndpointUrl = None,
    region: Region = None,
    no_sign_request: NoSignRequest = False,
    profile: Profile = None,
    header: Header = None,
) -> None:
    """Print the tree of nodes in PATH, or what a mount knows of a file.

    Exits with 2 if there is no Zarr, or its root cannot be loaded.
    """
    import logging  # noqa: PLC0415

    from zarrfuse.cli.info import show  # noqa: PLC0415

    # The tree has the errors of nodes, which a view also logs.
    logging.getLogger("zarrfuse").addHandler(logging.NullHandler())
    remote = remote_config(endpoint_url, region, no_sign_request, profile, header)
    problem = show(path, as_json=as_json, remote=remote)
    if problem is not None:
        print(f"zarrfuse: {problem}", file=sys.stderr)
        raise typer.Exit(EXIT_NO_ZARR)


@app.command()
def check(
    source: Source,
    deep: Annotated[
        bool, typer.Option("--deep", help="Read every chunk: verify checksums and shard indexes.")
    ] = False,
    repair: Annotated[
        bool, typer.Option("--repair", help="First finish interrupted writes.")
    ] = False,
    jobs: Annotated[
        int,
        typer.Option(
            metavar="N", min=1, help="With --deep: read chunks in N processes.", show_default=False
        ),
    ] = 1,
    scheduler: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="With --deep: read chunks on the Dask cluster of this scheduler, tcp://HOST:PORT.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    endpoint_url: EndpointUrl = None,
    region: Region = None,
    no_sign_request: NoSignRequest = False,
    profile: Profile = None,
    header: Header = None,
) -> None:
    """Print everything that is wrong with SOURCE.

    Exits with 0 if nothing is wrong, 1 if something is, 2 if SOURCE cannot be opened.
    """
    from zarrfuse.check.run import run  # noqa: PLC0415

    if not deep and scheduler is not None:
        raise typer.BadParameter("chunks are read only with --deep", param_hint="--scheduler")
    if not deep and jobs > 1:
        raise typer.BadParameter("chunks are read only with --deep", param_hint="--jobs")
    if jobs > 1 and scheduler is not None:
        raise typer.BadParameter("the cluster has its own processes", param_hint="--jobs")
    remote = remote_config(endpoint_url, region, no_sign_request, profile, header)
    code = run(
        source,
        deep=deep,
        as_json=as_json,
        repair=repair,
        remote=remote,
        processes=jobs,
        scheduler=scheduler,
    )
    raise typer.Exit(code)


app.command(name="index")(index_command.index)


@app.command()
def export(
    array: Annotated[str, _path("ARRAY", "A Zarr array: SOURCE/PATH, or a source that is one.")],
    folder: Annotated[str, _path("FOLDER", "Where to write it: a new or empty folder.")],
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
    endpoint_url: EndpointUrl = None,
    region: Region = None,
    no_sign_request: NoSignRequest = False,
    profile: Profile = None,
    header: Header = None,
) -> None:
    """Write ARRAY to FOLDER as files that are TIFF or HDF5, and shards.

    They are the chunks of a Zarr array. The exit code is 2 if ARRAY is no array, or cannot be opened.
    """
    from zarrfuse.cli.export import run  # noqa: PLC0415

    options = {"compression": compression, "shard": shard, "tile": tile}
    remote = remote_config(endpoint_url, region, no_sign_request, profile, header)
    raise typer.Exit(
        run(array, folder, file_format=file_format, dry_run=dry_run, remote=remote, **options)
    )


@app.command()
def demo(
    folder: Annotated[str, _path("FOLDER", "Where to write it.")] = "zarrfuse-demo",
) -> None:
    """Write a small dataset, and mount it. FOLDER/data is mounted on FOLDER/mnt."""
    from zarrfuse.cli.demo import run  # noqa: PLC0415

    run(folder)


@app.command()
def doctor() -> None:
    """Check what this machine needs to mount."""
    from zarrfuse.cli.doctor import run  # noqa: PLC0415

    if not run():
        raise typer.Exit(EXIT_FAILED)
