"""The program `zarrfuse`: its commands, and errors as one sentence and an exit code.

A command with many options has a module of its own, which makes config of them. Each command imports what
it needs, so that `mount` starts fast.
"""

import io
import os
import sys
from typing import Annotated, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

from zarrfuse import __version__
from zarrfuse.cli.arguments import path_argument
from zarrfuse.cli.check import check
from zarrfuse.cli.config import config
from zarrfuse.cli.export import export
from zarrfuse.cli.index import index
from zarrfuse.cli.install_desktop import install_desktop
from zarrfuse.cli.install_units import install_units
from zarrfuse.cli.mount import mount, unmount
from zarrfuse.cli.mount_command import MountCommand
from zarrfuse.cli.open import open_
from zarrfuse.cli.remote import RemoteOptions, with_remote_options
from zarrfuse.cli.saying import say, sentence_of
from zarrfuse.cli.status import status
from zarrfuse.errors import ZarrfuseError, text_of

EXIT_FAILED = 1
EXIT_NO_ZARR = 2
_OF_MOUNT_FUSE = 4  # SOURCE MOUNTPOINT -o OPTIONS

app = typer.Typer(
    name="zarrfuse",
    help="Mount a Zarr store as ordinary files.",
    epilog="Begin with `zarrfuse demo`, which writes a dataset and mounts it, and with"
    " `zarrfuse doctor`, which says what this machine lacks.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """The `zarrfuse` command."""
    run(_with_command(sys.argv[1:]))


def _with_command(arguments: list[str]) -> list[str]:
    """The arguments with the command, which mount.fuse(8) leaves out: SOURCE MOUNTPOINT -o OPTIONS."""
    if len(arguments) == _OF_MOUNT_FUSE and arguments[2] == "-o" and arguments[0] not in commands():
        return ["mount", *arguments]
    return arguments


def commands() -> dict[str, TyperCommand]:
    """The commands by their names."""
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    return group.commands  # type: ignore[return-value]


def run(arguments: list[str]) -> NoReturn:
    """Run the command of some arguments, and end the process."""
    for stream in (sys.stdout, sys.stderr):  # names of files need not be UTF-8
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        try:
            sys.exit(app(arguments, prog_name="zarrfuse"))
        finally:
            if sys.stdout is not None:  # None if standard output was closed from the beginning
                sys.stdout.flush()  # here, because an error at exit would print a traceback
    except ZarrfuseError as error:
        _fail(sentence_of(error))
    except ImportError as error:  # a library is missing or broken
        _fail(f"{text_of(error)}; zarrfuse doctor says what to install")
    except BrokenPipeError:  # the reader of the output has gone
        _drop_output()
        sys.exit(EXIT_FAILED)
    except OSError as error:
        _drop_output()
        _fail(sentence_of(error))


def _drop_output() -> None:
    """Drop unwritten output, which would be flushed again, and fail, at exit."""
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(sentence: str) -> NoReturn:
    say(sentence)
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
            "--version", "-V", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Mount a Zarr store as ordinary files."""


app.command(cls=MountCommand)(mount)
app.command()(unmount)
app.command()(status)
app.command(cls=MountCommand)(config)
app.command("open")(open_)
app.command()(install_units)
app.command()(install_desktop)


@app.command()
@with_remote_options
def info(
    path: Annotated[str, path_argument("PATH", "A source, or a path in a mount.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    *,
    remote: RemoteOptions,
) -> None:
    """Print the nodes in PATH, or what a mount knows of a file.

    Exits with 2 if there is no Zarr, or its root cannot be loaded.
    """
    import logging  # noqa: PLC0415

    from zarrfuse.cli.info import show  # noqa: PLC0415

    # The tree has the errors of nodes, which a view also logs.
    logging.getLogger("zarrfuse").addHandler(logging.NullHandler())
    problem = show(path, as_json=as_json, remote=remote.config())
    if problem is not None:
        say(problem)
        raise typer.Exit(EXIT_NO_ZARR)


app.command()(check)
app.command()(index)
app.command()(export)


@app.command()
def demo(
    folder: Annotated[str, path_argument("FOLDER", "Where to write it.")] = "zarrfuse-demo",
) -> None:
    """Write a small dataset, and mount it. FOLDER/data is mounted on FOLDER/mnt."""
    from zarrfuse.cli.demo import run  # noqa: PLC0415

    run(folder)


@app.command()
def doctor() -> None:
    """Check what this machine needs to mount.

    Says what to install or change, and exits with 1 if no mount works before that is done.
    """
    from zarrfuse.cli.doctor import run  # noqa: PLC0415

    if not run():
        raise typer.Exit(EXIT_FAILED)
