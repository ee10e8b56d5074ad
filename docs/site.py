"""What the documentation site has besides the pages of this folder: the README, and a reference.

A hook of MkDocs, which `.mkdocs.yml` names; `make docs` builds the site. The reference is made from the
code when the site is built.
"""

import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import typer

from zarrfuse import errors
from zarrfuse.cli.app import app
from zarrfuse.cli.mount_command import taken_by
from zarrfuse.cli.mount_config import VARIABLE, Takes
from zarrfuse.views.attributes import MEANINGS

REPOSITORY = Path(__file__).parents[1]
PYTHON = ("open_store", "mount", "index", "export")


def on_files(files: Any, config: Any) -> Any:
    """See MkDocs: adds the pages that are made here."""
    from mkdocs.structure.files import File  # noqa: PLC0415  # tests make pages without MkDocs

    for path, text in pages():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, *, page: Any, config: Any, **_: Any) -> str:
    """See MkDocs: files that are not on the site are shown where the code is."""
    depth = page.file.src_uri.count("/")
    out, up = r"(?:\.\./)" * (depth + 1), "../" * depth
    text = re.sub(rf"\]\({out}README\.md(#[^)]*)?\)", rf"]({up}index.md\1)", markdown)
    return re.sub(rf"\]\({out}([^)]+)\)", rf"]({config['repo_url']}/blob/main/\1)", text)


def pages() -> Iterator[tuple[str, str]]:
    """(path below `docs`, text) of each page that is made here."""
    yield "index.md", _readme()
    makers: tuple[Callable[[], str], ...] = (
        _commands,
        _configuration,
        _attributes,
        _errors,
        _python,
    )
    for make in makers:
        yield f"reference/{make.__name__.strip('_')}.md", make()


def _readme() -> str:
    """The README with its links as they are on the site."""
    text = (REPOSITORY / "README.md").read_text()
    text = re.sub(r"\]\(docs/", "](", text)
    return text.replace("](CONTRIBUTING.md)", "](../CONTRIBUTING.md)")


def _commands() -> str:
    """All commands with their arguments and options."""
    group: Any = typer.main.get_command(app)
    context = group.make_context("zarrfuse", [], resilient_parsing=True)
    found = ["# Commands", "The same is in the man pages, and in `zarrfuse COMMAND --help`."]
    for name, command in group.commands.items():
        inner = command.make_context(name, [], parent=context, resilient_parsing=True)
        usage = " ".join(command.collect_usage_pieces(inner))
        found += [f"## zarrfuse {name}", command.help, f"```text\nzarrfuse {name} {usage}\n```"]
        records = filter(
            None, (param.get_help_record(inner) for param in command.get_params(inner))
        )
        found.append(_table(("option", ""), ((f"`{option}`", help_) for option, help_ in records)))
    return "\n\n".join(found)


def _configuration() -> str:
    """Keys of files of configuration, with their variables and defaults."""
    group: Any = typer.main.get_command(app)
    mount = group.commands["mount"]
    takes = taken_by(mount)
    rows = []
    for param in mount.params:
        if param.name in takes:
            default = (
                "" if param.default in (None, False) or callable(param.default) else param.default
            )
            rows.append(
                (
                    f"`{param.name}`",
                    f"`{VARIABLE}{param.name.upper()}`",
                    takes[param.name].value,
                    f"`{default}`" if default else "",
                    getattr(param, "help", None) or "",
                )
            )
    assert {Takes.TEXT, Takes.TEXTS, Takes.NOTHING} == set(takes.values())
    return "\n\n".join(
        (
            "# Configuration",
            "Keys of the files of configuration, and the variables of the environment that do the same. "
            "How they are read is in [Mounting](../mount.md#files-of-configuration). In `-o` each has the "
            "same name.",
            _table(("key", "variable", "value", "default", ""), rows),
        )
    )


def _attributes() -> str:
    """Extended attributes."""
    return "\n\n".join(
        (
            "# Extended attributes",
            "With `--xattrs` a mount has these; `getfattr -d FILE` prints them. A text is shown as it is, "
            "any other value as JSON. The same facts are in `.zarrfuse/info/<path>`, always. "
            "Extensions add `user.zarr.NAME`.",
            _table(
                ("attribute", ""), ((f"`{name}`", meaning) for name, meaning in MEANINGS.items())
            ),
        )
    )


def _errors() -> str:
    """The exceptions, with the errno that a program on a mount gets."""
    rows = [
        (
            f"`{name}`",
            errors.errno.errorcode[each.errno],
            inspect.cleandoc(each.__doc__).split("\n\n")[0],
        )
        for name, each in vars(errors).items()
        if inspect.isclass(each) and issubclass(each, errors.ZarrfuseError)
    ]
    return "\n\n".join(
        (
            "# Errors",
            "Exceptions of `zarrfuse.errors`. A program on a mount gets the errno; the sentence with "
            "the reason is in the log and in `.zarrfuse/status.json`.",
            _table(("exception", "errno", "when"), rows),
        )
    )


def _python() -> str:
    """The functions of the package."""
    names = "\n\n".join(f"::: zarrfuse.{name}" for name in PYTHON)
    return f"# Python\n\nHow they are used is in [From Python](../python.md).\n\n{names}"


def _table(head: tuple[str, ...], rows: Any) -> str:
    lines = [head, ("---",) * len(head), *rows]
    cells = ([" ".join(str(cell).split()).replace("|", "\\|") for cell in line] for line in lines)
    return "\n".join(f"| {' | '.join(line)} |" for line in cells)
