"""The commands `mount` and `unmount`. Used by `app`: owns their options."""

import os
import sys
from dataclasses import replace
from typing import Annotated

import typer

from zarrfuse.cli.arguments import SOURCE, path_argument
from zarrfuse.cli.mount_command import flags_of, read_config, reread
from zarrfuse.cli.mount_config import CONFIG, Takes, given
from zarrfuse.cli.mount_words import escaped, shared_out, words_of
from zarrfuse.cli.remote import RemoteOptions, with_remote_options
from zarrfuse.cli.saying import say
from zarrfuse.cli.values import (
    parse_bytes,
    parse_formats,
    parse_group,
    parse_mask,
    parse_seconds,
    parse_user,
)
from zarrfuse.config import (
    DEFAULT_VIEW,
    FORMATS,
    LOG_FORMATS,
    VIEWS,
    MountConfig,
    ShownAccess,
    Tuning,
)
from zarrfuse.errors import MountError

_LONGEST_TIMEOUT_S = 86_400


@with_remote_options
def mount(
    ctx: typer.Context,
    source: Annotated[str | None, SOURCE] = None,
    mountpoint: Annotated[str | None, path_argument("MOUNTPOINT", "An empty folder.")] = None,
    config: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Take what is not given here from /etc/zarrfuse/NAME.toml and "
            "~/.config/zarrfuse/NAME.toml, or from a file.",
            envvar=CONFIG,
            is_eager=True,
            callback=read_config,
        ),
    ] = None,
    view: Annotated[
        str,
        typer.Option(
            metavar="VIEW",
            help="What to show: "
            + "; ".join(f"`{name}`, {kind.shows}" for name, kind in VIEWS.items())
            + ".",
            autocompletion=lambda: list(VIEWS),
        ),
    ] = DEFAULT_VIEW,
    option: Annotated[
        list[str] | None,
        typer.Option(
            "-o",
            metavar="OPT,...",
            help="Options as mount(8) and fstab have them: those of this command, such as view=plain, and "
            "of fuse(8); of a URL, also settings KEY=VALUE of obstore.",
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
    uid: Annotated[
        str | None,
        typer.Option(metavar="USER", help="Show USER as the owner of everything."),
    ] = None,
    gid: Annotated[
        str | None, typer.Option(metavar="GROUP", help="Show GROUP as the group of everything.")
    ] = None,
    umask: Annotated[
        str | None,
        typer.Option(
            metavar="BITS",
            help="Show all permission bits but these, such as 022, in place of the stored modes.",
        ),
    ] = None,
    fmask: Annotated[
        str | None, typer.Option(metavar="BITS", help="As --umask, of files alone.")
    ] = None,
    dmask: Annotated[
        str | None, typer.Option(metavar="BITS", help="As --umask, of folders alone.")
    ] = None,
    follow_symlinks: Annotated[
        bool,
        typer.Option("--follow-symlinks", help="Follow symlinks that lead out of SOURCE, too."),
    ] = False,
    xattrs: Annotated[
        bool, typer.Option("--xattrs", help="Offer metadata as extended attributes.")
    ] = False,
    bookmark: Annotated[
        bool,
        typer.Option(
            "--bookmark",
            help="Show the mount in the side bar of file managers until it is unmounted.",
        ),
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
    metrics: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Serve counters to Prometheus at PORT, or HOST:PORT, of this machine.",
        ),
    ] = None,
    log_format: Annotated[
        str, typer.Option(metavar="FORMAT", help="Of the log: `text`, or `json`, an object a line.")
    ] = "text",
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log more.")] = False,
) -> None:
    """Mount SOURCE on MOUNTPOINT, in the background. It is ready when the command returns."""
    del config  # `read_config` has read it
    from zarrfuse.mounts import command_line, daemon, kernel_mounts, logs  # noqa: PLC0415
    from zarrfuse.stores.opening import is_url, secrets_of  # noqa: PLC0415

    if view not in VIEWS:
        raise typer.BadParameter(f"{view} is not one of {', '.join(VIEWS)}", param_hint="--view")
    if read_write and not VIEWS[view].is_writable:
        raise typer.BadParameter(f"the view {view} is read-only", param_hint="--read-write")
    if source is None or mountpoint is None:
        missing = "SOURCE" if source is None else "MOUNTPOINT"
        raise typer.BadParameter("is missing, and no configuration has it", param_hint=missing)
    words = tuple(word for text in option or () for word in words_of(text))
    options, settings = shared_out(words, flags_of(ctx.command), is_url=is_url(source))
    timeout_s = parse_seconds(timeout, "--timeout")
    if not 0 < timeout_s <= _LONGEST_TIMEOUT_S:
        raise typer.BadParameter(
            f"{timeout} is not between 0 and {_LONGEST_TIMEOUT_S}", param_hint="--timeout"
        )
    remote_config = remote.config(settings)
    secrets = [*secrets_of(source), *(remote.header or ()), *settings]
    command_line.hide([*secrets, *map(escaped, secrets)])
    if log_format not in LOG_FORMATS:
        raise typer.BadParameter(
            f"{log_format} is neither text nor json", param_hint="--log-format"
        )
    mount_config = MountConfig(
        source=source if is_url(source) else os.path.realpath(source),
        mountpoint=kernel_mounts.resolved(mountpoint),
        view=view,
        options=options,
        read_write=read_write,
        spool_dir=spool_dir and os.path.abspath(spool_dir),
        foreground=foreground,
        allow_other=allow_other,
        shown_access=ShownAccess(
            uid=None if uid is None else parse_user(uid, "--uid"),
            gid=None if gid is None else parse_group(gid, "--gid"),
            file_mask=_mask((fmask, "--fmask"), (umask, "--umask")),
            folder_mask=_mask((dmask, "--dmask"), (umask, "--umask")),
        ),
        follow_symlinks=follow_symlinks,
        xattrs=xattrs,
        bookmark=bookmark,
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
        metrics=metrics,
        log_format=log_format,
        verbose=verbose,
    )
    problem = daemon.mount(mount_config, lambda: reread(ctx, "verbose"))
    path = logs.file_of(mount_config)
    if log_file is None and path is not None and sys.stderr.isatty():
        say(f"there is no syslog: the log is {path}")
    if problem is not None:
        say(f"warning: {problem}")


def _mask(*given: tuple[str | None, str]) -> int | None:
    """The first mask that is given, of (text, option)."""
    return next((parse_mask(text, option) for text, option in given if text is not None), None)


def unmount(
    mountpoint: Annotated[
        str | None, path_argument("MOUNTPOINT", "The folder of the mount.")
    ] = None,
    config: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Take the mountpoint from a configuration, as `mount`."),
    ] = None,
    lazy: Annotated[
        bool,
        typer.Option("--lazy", help="Unmount even if files are open; they stay readable."),
    ] = False,
) -> None:
    """Unmount MOUNTPOINT."""
    from zarrfuse.mounts import kernel_mounts  # noqa: PLC0415

    if mountpoint is None:
        found = given(config, {"mountpoint": Takes.TEXT}, others=True)
        mountpoint = found.values.get("mountpoint")
    if mountpoint is None:
        raise typer.BadParameter("is missing, and no configuration has it", param_hint="MOUNTPOINT")
    path = kernel_mounts.resolved(mountpoint)
    mounted = kernel_mounts.mount_at(path)
    if mounted is None or not mounted.type.startswith("fuse"):
        raise MountError(f"{path} is not mounted")
    process = None if lazy else kernel_mounts.daemon_of(mounted)
    kernel_mounts.unmount(path, lazy=lazy)
    if process is not None:
        kernel_mounts.wait_for_end(process)
