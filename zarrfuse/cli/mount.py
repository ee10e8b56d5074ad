"""The commands `mount` and `unmount`. Used by `app`: owns their options."""

import os
from dataclasses import replace
from typing import Annotated

import typer

from zarrfuse.cli.arguments import Source, path_argument
from zarrfuse.cli.remote import RemoteOptions, split_options, with_remote_options
from zarrfuse.cli.saying import say
from zarrfuse.cli.values import parse_bytes, parse_formats, parse_seconds
from zarrfuse.config import DEFAULT_VIEW, FORMATS, VIEWS, MountConfig, Tuning
from zarrfuse.errors import MountError

_LONGEST_TIMEOUT_S = 86_400


@with_remote_options
def mount(
    source: Source,
    mountpoint: Annotated[str, path_argument("MOUNTPOINT", "An empty folder.")],
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
    *,
    remote: RemoteOptions,
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
    timeout_s = parse_seconds(timeout, "--timeout")
    if not 0 < timeout_s <= _LONGEST_TIMEOUT_S:
        raise typer.BadParameter(
            f"{timeout} is not between 0 and {_LONGEST_TIMEOUT_S}", param_hint="--timeout"
        )
    remote_config = remote.config(settings)
    command_line.hide([*secrets_of(source), *(remote.header or ()), *settings])
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
            cache_ttl_s=None if cache_ttl is None else parse_seconds(cache_ttl, "--cache-ttl"),
            formats=parse_formats(formats, "--formats"),
            cache_bytes=None if cache_size is None else parse_bytes(cache_size, "--cache-size"),
            remote=replace(
                remote_config,
                cache_dir=cache_dir and os.path.abspath(cache_dir),
                cache_disk_bytes=parse_bytes(cache_disk_size, "--cache-disk-size"),
            ),
            tuning=Tuning(store_timeout_s=timeout_s),
            log_file=log_file and os.path.abspath(log_file),
            verbose=verbose,
        )
    )
    if problem is not None:
        say(problem)


def unmount(
    mountpoint: Annotated[str, path_argument("MOUNTPOINT", "The folder of the mount.")],
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
        raise MountError(f"{path} is not mounted")
    process = None if lazy else kernel_mounts.daemon_of(mounted)
    kernel_mounts.unmount(path, lazy=lazy)
    if process is not None:
        kernel_mounts.wait_for_end(process)
