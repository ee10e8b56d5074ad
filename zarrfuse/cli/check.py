"""The command `check`. Used by `app`: owns its options."""

from typing import Annotated

import typer

from zarrfuse.cli.arguments import Source
from zarrfuse.cli.remote import RemoteOptions, with_remote_options


@with_remote_options
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
    *,
    remote: RemoteOptions,
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
    code = run(
        source,
        deep=deep,
        as_json=as_json,
        repair=repair,
        remote=remote.config(),
        processes=jobs,
        scheduler=scheduler,
    )
    raise typer.Exit(code)
