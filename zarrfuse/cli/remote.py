"""The options for remote sources. Used by `app`: owns how they become a `RemoteConfig`."""

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Annotated

import typer

from zarrfuse.config import RemoteConfig

EndpointUrl = Annotated[
    str | None,
    typer.Option(metavar="URL", help="The server of an s3:// source, if it is not Amazon's."),
]
Region = Annotated[str | None, typer.Option(metavar="NAME", help="The region of an s3:// source.")]
NoSignRequest = Annotated[
    bool, typer.Option("--no-sign-request", help="Ask without credentials: a public bucket.")
]
Profile = Annotated[
    str | None, typer.Option(metavar="NAME", help="The profile of ~/.aws with the credentials.")
]
Header = Annotated[
    list[str] | None,
    typer.Option(metavar="'NAME: VALUE'", help="Send this with each request to a URL."),
]

# Options of mount(8), fuse(8) and systemd that have a value; all others are settings of the source.
_OF_MOUNT = re.compile(
    r"x-[\w.-]+|comment|context|fscontext|defcontext|rootcontext|fsname|subtype|uid|gid|umask|blksize"
    r"|max_\w+|fd|rootmode|user_id|group_id|modules|subdir|iosize|clone_fd|\w+_timeout|retry"
)
_HEADER = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+)\s*:\s*([^\r\n]*)")


def remote_config(
    endpoint_url: str | None,
    region: str | None,
    no_sign_request: bool,
    profile: str | None,
    header: list[str] | None,
    settings: Iterable[str] = (),
) -> RemoteConfig:
    """What the options say; `settings`: `key=value`, of which the last counts."""
    given = dict(_pair(setting) for setting in settings)
    if endpoint_url is not None:
        given["endpoint"] = endpoint_url
    if region is not None:
        given["region"] = region
    if no_sign_request:
        given["skip_signature"] = "true"
    return replace(
        RemoteConfig(),
        profile=profile,
        headers=tuple(map(_header, header or ())),
        settings=tuple(given.items()),
    )


def split_options(words: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(options of the mount, settings of the source) of the words of `-o`."""
    options: list[str] = []
    settings: list[str] = []
    for word in words:
        name, equals, _ = word.partition("=")
        is_of_mount = not equals or _OF_MOUNT.fullmatch(name) is not None
        (options if is_of_mount else settings).append(word)
    return tuple(options), tuple(settings)


def _pair(setting: str) -> tuple[str, str]:
    name, _, value = setting.partition("=")
    return name, value


def _header(text: str) -> tuple[str, str]:
    found = _HEADER.fullmatch(text)
    if found is None:  # the text may hold a secret
        raise typer.BadParameter("a header is written 'NAME: VALUE'", param_hint="--header")
    return found[1], found[2].strip()
