"""The options for remote sources. Used by commands that take a URL.

Owns how they become a `RemoteConfig`.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import wraps
from inspect import Parameter, signature
from typing import Annotated, Any

import typer

from zarrfuse.config import RemoteConfig

_HEADER = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+)\s*:\s*([^\r\n]*)")


@dataclass(frozen=True, slots=True)
class RemoteOptions:
    """The options as they are given; the annotations are those of typer."""

    endpoint_url: Annotated[
        str | None,
        typer.Option(metavar="URL", help="The server of an s3:// source, if it is not Amazon's."),
    ] = None
    region: Annotated[
        str | None, typer.Option(metavar="NAME", help="The region of an s3:// source.")
    ] = None
    no_sign_request: Annotated[
        bool, typer.Option("--no-sign-request", help="Ask without credentials: a public bucket.")
    ] = False
    profile: Annotated[
        str | None, typer.Option(metavar="NAME", help="The profile of ~/.aws with the credentials.")
    ] = None
    header: Annotated[
        list[str] | None,
        typer.Option(metavar="'NAME: VALUE'", help="Send this with each request to a URL."),
    ] = None

    def config(self, settings: Iterable[str] = ()) -> RemoteConfig:
        """What the options say; `settings`: `key=value`, of which the last counts.

        Raises `typer.BadParameter` for what is no header.
        """
        given = dict(_pair(setting) for setting in settings)
        if self.endpoint_url is not None:
            given["endpoint"] = self.endpoint_url
        if self.region is not None:
            given["region"] = self.region
        if self.no_sign_request:
            given["skip_signature"] = "true"
        return RemoteConfig(
            profile=self.profile,
            headers=tuple(map(_header, self.header or ())),
            settings=tuple(given.items()),
        )


def with_remote_options(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the options of `RemoteOptions` in place of its parameter `remote`.

    `command`: has a keyword parameter `remote: RemoteOptions`. Typer reads the options from the signature.
    """
    options = signature(RemoteOptions).parameters

    @wraps(command)
    def with_options(**given: Any) -> None:
        remote = RemoteOptions(**{name: given.pop(name) for name in options})
        command(remote=remote, **given)

    parameters: list[Parameter] = []
    own = signature(command)
    for name, parameter in own.parameters.items():
        if name == "remote":
            parameters += (option.replace(kind=parameter.kind) for option in options.values())
        else:
            parameters.append(parameter)
    with_options.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    return with_options


def _pair(setting: str) -> tuple[str, str]:
    name, _, value = setting.partition("=")
    return name, value


def _header(text: str) -> tuple[str, str]:
    found = _HEADER.fullmatch(text)
    if found is None:  # the text may hold a secret
        raise typer.BadParameter("a header is written 'NAME: VALUE'", param_hint="--header")
    return found[1], found[2].strip()
