"""Where options of a mount come from besides the command line: TOML files, and the environment.

    /etc/zarrfuse/NAME.toml < ~/.config/zarrfuse/NAME.toml < ZARRFUSE_* < the command line

Owns the names of files and variables, and what their values must be. Used by `mount_command`.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from enum import Enum
from pathlib import Path
from typing import Any

from zarrfuse.errors import ZarrfuseError, text_of
from zarrfuse.stores.trust import fault_of

VARIABLE = "ZARRFUSE_"
CONFIG = VARIABLE + "CONFIG"
_SYSTEM = Path("/etc/zarrfuse")
_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


class ConfigError(ZarrfuseError):
    """A file of configuration, or a variable, that cannot be used."""


class Takes(Enum):
    """What an option takes."""

    NOTHING = "true or false"
    TEXT = "a text or a number"
    TEXTS = "a list of texts"


@dataclass(slots=True)
class Given:
    """Values of options by their names, and where each comes from."""

    values: dict[str, Any] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)

    def _set(self, name: str, value: Any, origin: str) -> None:
        self.values[name] = value
        self.origins[name] = origin


def given(config: str | None, options: Mapping[str, Takes], *, others: bool = False) -> Given:
    """What files and the environment say of options.

    `config`: the name of a configuration, or the path of one file, which has a slash or ends in .toml.
    `options`: what each takes, by its name. `others`: whether files and the environment may have others,
    too. Raises `ConfigError`.
    """
    found = Given()
    for path in _files(config) if config is not None else ():
        for key, value in _table(path).items():
            name = key.replace("-", "_")
            if name not in options:
                if others:
                    continue
                raise ConfigError(f"{path}: there is no option {key}{_nearest(name, options)}")
            found._set(name, _checked(value, options[name], f"{path}: {key}"), str(path))
    names = {VARIABLE + name.upper(): name for name in options}
    for variable, text in os.environ.items():
        if not variable.startswith(VARIABLE) or variable == CONFIG or not text:
            continue
        if variable in names:
            name = names[variable]
            found._set(name, _of_text(text, options[name], variable), variable)
        elif not others:
            raise ConfigError(
                f"there is no variable {variable}{_nearest(variable, [CONFIG, *names])}"
            )
    return found


def _files(config: str) -> list[Path]:
    """The files of a configuration, the weakest first. Raises `ConfigError` if there is none."""
    if "/" in config or config.endswith(".toml"):
        return [Path(config).absolute()]
    home = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    all_paths = [_SYSTEM / f"{config}.toml", home / "zarrfuse" / f"{config}.toml"]
    paths = [path for path in all_paths if path.exists()]
    if not paths:
        names = " nor ".join(map(str, all_paths))
        raise ConfigError(f"there is no configuration {config}: neither {names} exists")
    return paths


def _table(path: Path) -> dict[str, Any]:
    import tomllib  # noqa: PLC0415  # few mounts have a file

    try:
        fault = fault_of(str(path))
        if fault is not None:
            raise ConfigError(f"{path} is not trusted, because {fault}")
        with path.open("rb") as file:
            return tomllib.load(file)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is no TOML: {text_of(error)}") from None


def _nearest(name: str, names: Iterable[str]) -> str:
    near = get_close_matches(name, names, 1)
    return f"; did you mean {near[0]}?" if near else ""


def _checked(value: Any, takes: Takes, what: str) -> Any:
    """A value of TOML as the command line has it."""
    if takes is Takes.NOTHING and isinstance(value, bool):
        return value
    if takes is Takes.TEXTS and isinstance(value, list) and {type(each) for each in value} <= {str}:
        return value
    if takes is Takes.TEXT and isinstance(value, str | int | float) and not isinstance(value, bool):
        text = str(value)
        return os.path.expanduser(text) if text.startswith("~/") else text
    raise ConfigError(f"{what} must be {takes.value}, not {value!r:.80}")


def _of_text(text: str, takes: Takes, variable: str) -> Any:
    """The text of a variable as the command line has it; lists have a line for each element."""
    if takes is Takes.TEXTS:
        return text.splitlines()
    if takes is Takes.TEXT:
        return text
    if text.lower() not in (*_TRUE, *_FALSE):
        raise ConfigError(f"{variable} must be {takes.value}, not {text!r:.80}")
    return text.lower() in _TRUE
