"""How the options of a mount are collected, for each command that takes them: `mount` and `config`.

Owns that `-o`, files, the environment and the command line mean the same options. It must not know what
the options do.
"""

from typing import Any

import typer
from typer.core import TyperCommand

from zarrfuse.cli import mount_config, mount_words
from zarrfuse.cli.mount_config import Takes

_WORDS = "option"
_NOT_IN_FILES = frozenset({"config", "help", "as_json"})
_ORIGINS = "zarrfuse.origins"


class MountCommand(TyperCommand):
    """A command with the options of a mount, some of which may be in an `-o`, a file or a variable.

    An error about a value is one sentence: without the context, click prints no usage of the command line,
    which who wrote a file or a line of fstab has not used.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """See click."""
        try:
            return super().parse_args(ctx, mount_words.expanded(args, flags_of(self)))
        except typer.BadParameter as error:
            error.ctx = None
            raise

    def invoke(self, ctx: Any) -> Any:
        """See click. An error about an option says where that comes from."""
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            name = str(error.param_hint).removeprefix("--").replace("-", "_")
            if (origin := origin_of(ctx, name)) is not None:
                error.message += f" ({origin})"
            error.ctx = None
            raise


def flags_of(command: Any) -> mount_words.Flags:
    """The options of a command as `-o` has them."""
    return {
        name: takes is Takes.NOTHING
        for name, takes in taken_by(command).items()
        if name not in ("source", "mountpoint", _WORDS)
    } | {"config": False}


def read_config(ctx: typer.Context, config: str | None) -> str | None:
    """The callback of `--config`: files and the environment count where the command line is silent."""
    given = mount_config.given(config, taken_by(ctx.command))
    ctx.default_map = given.values
    ctx.meta[_ORIGINS] = given.origins
    return config


def reread(ctx: typer.Context, name: str) -> Any:
    """An option as it would be now, since files may have changed. Raises `ConfigError`."""
    source = ctx.get_parameter_source(name)
    if source is not None and source.name == "COMMANDLINE":
        return ctx.params[name]
    values = mount_config.given(ctx.params["config"], taken_by(ctx.command)).values
    return values.get(name, ctx.params[name] if source and source.name == "DEFAULT" else False)


def origin_of(ctx: typer.Context, name: str) -> str | None:
    """The file or the variable that an option comes from; None if it is another source."""
    source = ctx.get_parameter_source(name)
    if source is None or source.name != "DEFAULT_MAP":
        return None
    return str(ctx.meta[_ORIGINS][name])


def taken_by(command: Any) -> dict[str, Takes]:
    """The arguments and options of a command that may be in a file, and what each takes."""
    return {
        param.name: _takes(param) for param in command.params if param.name not in _NOT_IN_FILES
    }


def _takes(param: Any) -> Takes:
    if getattr(param, "multiple", False):
        return Takes.TEXTS
    return Takes.NOTHING if getattr(param, "is_flag", False) else Takes.TEXT
