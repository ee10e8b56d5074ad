"""The command `config`: the options of a mount as they would be, and where each comes from.

It has the options of `mount`. Used by `app`.
"""

import json
from collections.abc import Callable, Collection
from functools import wraps
from inspect import Parameter, signature
from typing import Annotated, Any

import typer

from zarrfuse.cli.mount import mount
from zarrfuse.cli.mount_command import flags_of, origin_of, taken_by
from zarrfuse.cli.mount_words import escaped, shared_out, words_of

_JSON = "as_json"
_SECRET = "***"


def _with_options_of_mount(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the parameters of `mount` besides its own."""

    @wraps(command)
    def with_options(ctx: typer.Context, **given: Any) -> None:
        command(ctx, as_json=given[_JSON])

    own = signature(command).parameters[_JSON]
    parameters = signature(mount).parameters.values()
    with_options.__signature__ = signature(mount).replace(  # type: ignore[attr-defined]
        parameters=[*parameters, own.replace(kind=Parameter.KEYWORD_ONLY)]
    )
    return with_options


@_with_options_of_mount
def config(
    ctx: typer.Context,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Print the options of a mount, and where each comes from.

    Takes the arguments of `mount`, and prints TOML, in which defaults are comments.
    """
    from zarrfuse.stores.opening import is_url  # noqa: PLC0415

    words = [word for text in ctx.params["option"] or () for word in words_of(text)]
    is_remote = is_url(ctx.params["source"] or "")
    _, settings = shared_out(words, flags_of(ctx.command), is_url=is_remote)
    found = {
        name: (_without_secrets(name, ctx.params[name], settings), _origin(ctx, name))
        for name in taken_by(ctx.command)
        if ctx.params[name] not in (None, [])
    }
    if as_json:
        print(json.dumps({name: {"value": v, "origin": o} for name, (v, o) in found.items()}))
        return
    for name, (value, origin) in found.items():
        line = f"{name} = {_toml(value)}"
        print(f"# {line:48} # {origin}" if origin == "default" else f"{line:50} # {origin}")


def _origin(ctx: typer.Context, name: str) -> str:
    source = ctx.get_parameter_source(name)
    assert source is not None
    return origin_of(ctx, name) or {"DEFAULT": "default"}.get(source.name, "command line")


def _without_secrets(name: str, value: Any, settings: Collection[str]) -> Any:
    """Headers, and settings KEY=VALUE of a URL, without their values; a URL without what may be secret."""
    from zarrfuse.stores.opening import printable_source  # noqa: PLC0415

    if name == "source":
        return printable_source(value)
    if name == "header":
        return [f"{header.partition(':')[0]}: {_SECRET}" for header in value]
    if name == "option":
        return [
            escaped(f"{word.partition('=')[0]}={_SECRET}" if word in settings else word)
            for text in value
            for word in words_of(text)
        ]
    return value


def _toml(value: Any) -> str:
    """A text, a list of texts, or a boolean: JSON writes them as TOML does."""
    return json.dumps(value, ensure_ascii=False)
