"""Writes what packages have and the code says: man pages, and completion of shells.

python packaging/generate.py
"""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from typer.completion import get_completion_script

from zarrfuse import __version__
from zarrfuse.cli.app import app

FOLDER = Path(__file__).parent
_COMPLETIONS = {
    "bash": "completions/zarrfuse",
    "zsh": "completions/_zarrfuse",
    "fish": "completions/zarrfuse.fish",
}

# zsh runs the file at the first Tab, which would only define the function.
_MORE = {"zsh": '\n_zarrfuse_completion "$@"\n'}


def files() -> Iterator[tuple[str, str]]:
    """(path below this folder, text) of each file."""
    for name, text in _pages():
        yield f"man/man1/{name}", text
    for shell, path in _COMPLETIONS.items():
        script = get_completion_script(
            prog_name="zarrfuse", complete_var="_ZARRFUSE_COMPLETE", shell=shell
        )
        yield path, f"{script.strip()}\n{_MORE.get(shell, '')}"


def _pages() -> Iterator[tuple[str, str]]:
    group = typer.main.get_command(app)
    context = group.make_context("zarrfuse", [], resilient_parsing=True)
    names = sorted(group.commands)  # type: ignore[attr-defined]
    yield "zarrfuse.1", _page(group, context, [f"zarrfuse-{name}" for name in names])
    for name in names:
        command = group.commands[name]  # type: ignore[attr-defined]
        inner = command.make_context(name, [], parent=context, resilient_parsing=True)
        yield f"zarrfuse-{name}.1", _page(command, inner, ["zarrfuse"])


def _page(command: Any, context: Any, others: list[str]) -> str:
    title = context.command_path.replace(" ", "-")
    first, _, rest = command.help.partition("\n\n")
    lines = [
        f'.TH "{title.upper()}" 1 "" "zarrfuse {__version__}" "zarrfuse"',
        ".SH NAME",
        f"{_text(title)} \\- {_text(_sentence(first))}",
        ".SH SYNOPSIS",
        f".B {_text(context.command_path)}",
        _text(" ".join(command.collect_usage_pieces(context))),
        ".SH DESCRIPTION",
        _text(_joined(first)),
    ]
    for paragraph in rest.split("\n\n") if rest else ():
        lines += [".PP", _text(_joined(paragraph))]
    for kind, heading in (("argument", "ARGUMENTS"), ("option", "OPTIONS")):
        params = [each for each in command.get_params(context) if each.param_type_name == kind]
        records = [record for each in params if (record := each.get_help_record(context))]
        if records:
            lines.append(f".SH {heading}")
        for name, help_ in records:
            lines += [".TP", f"\\fB{_text(name)}\\fR", _text(_joined(help_))]
    if hasattr(command, "commands"):
        lines.append(".SH COMMANDS")
        for name, each in command.commands.items():
            lines += [
                ".TP",
                f"\\fB{_text(name)}\\fR",
                _text(_joined(each.help.partition("\n\n")[0])),
            ]
    lines += [".SH SEE ALSO", ", ".join(f"\\fB{_text(other)}\\fR(1)" for other in others)]
    return "\n".join(lines) + "\n"


def _sentence(text: str) -> str:
    """The first sentence, without its full stop."""
    return re.split(r"\.(?:\s|$)", _joined(text), maxsplit=1)[0]


def _joined(text: str) -> str:
    return " ".join(text.split())


def _text(text: str) -> str:
    """Text as roff has it."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq")
    return re.sub(r"^([.'])", r"\\&\1", escaped)


if __name__ == "__main__":
    for folder in ("man/man1", "completions"):
        shutil.rmtree(FOLDER / folder, ignore_errors=True)
        (FOLDER / folder).mkdir(parents=True)
    for path, text in files():
        (FOLDER / path).write_text(text)
