"""What the documentation site has besides the pages of this folder: the README, and a reference.

A hook of MkDocs, which `.mkdocs.yml` names; `make docs` builds the site. The reference is made from the
code when the site is built.
"""

import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import typer

from zarrfuse import errors
from zarrfuse.cli.app import app
from zarrfuse.cli.mount_command import flags_of, taken_by
from zarrfuse.cli.mount_config import VARIABLE, Takes
from zarrfuse.cli.mount_words import BEGINS_OF_FSTAB, OF_FSTAB, OF_KERNEL, REFUSED
from zarrfuse.mounts.metrics import Counters
from zarrfuse.views.attributes import MEANINGS

REPOSITORY = Path(__file__).parents[1]
PYTHON = ("open_store", "mount", "index", "export")
STATUS = {
    **dict.fromkeys(("version", "source", "mountpoint", "view"), ""),
    **dict.fromkeys(("uptime_s", "open_files", "open_folders", "kernel_lookups"), 0),
    "requests_by_kind": {"read": 0},
    "errors": {"EIO": 0},
    "refusals": {"ENOENT": 0},
    "bytes_read": 0,
    "bytes_written": 0,
    "server": {"requests": 0},
    "cache": {"hits": 0, "misses": 0},
    "store_calls": {"calls": 0, "seconds": 0, "buckets": []},
}
"""A `status.json` with all that becomes metrics."""


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
        _mount_words,
        _attributes,
        _errors,
        _metrics,
        _python,
    )
    for make in makers:
        yield f"reference/{make.__name__.strip('_').replace('_', '-')}.md", make()


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
            "same name: see [Words of -o](mount-words.md).",
            _table(("key", "variable", "value", "default", ""), rows),
        )
    )


def _mount_words() -> str:
    """The words of `-o`."""
    group: Any = typer.main.get_command(app)
    mount = group.commands["mount"]
    flags = flags_of(mount)
    options = {param.name: param for param in mount.params if param.name in flags}
    of_command = (
        (
            f"`{name}`" if flags[name] else f"`{name}={param.metavar or 'VALUE'}`",
            f"`--{name.replace('_', '-')}`",
            param.help,
        )
        for name, param in options.items()
    )
    reasons: dict[str, list[str]] = {}
    for word, why in REFUSED.items():
        reasons.setdefault(why, []).append(word)
    begins = (f"{begin}..." for begin in BEGINS_OF_FSTAB)
    return "\n\n".join(
        (
            "# Words of -o",
            "`zarrfuse mount -o WORD,...`, mount(8) and lines of fstab take these words. "
            "[Mounting](../mount.md#the-words-of-o) says how they are written.",
            "## Options of zarrfuse",
            "`_` may be written `-`.",
            _table(("word", "option", ""), of_command),
            "## Options of the kernel and of libfuse",
            f"Are handed on: {_words(OF_KERNEL)}.",
            "## Words of fstab",
            "Are read by mount(8) and systemd, and are dropped: "
            f"{_words(OF_FSTAB)}, {_words(begins)}.",
            "## Refused",
            "Words of other FUSE file systems, and why they cannot be given:",
            _table(("words", ""), ((_words(words), why) for why, words in reasons.items())),
            "## Anything else",
            "With a URL as the source, `KEY=VALUE` is a [setting of the store](../remote.md#options). "
            "Any other word is refused, with the nearest one that exists.",
        )
    )


def _words(words: Iterable[str]) -> str:
    return ", ".join(f"`{word}`" for word in sorted(words))


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


def _metrics() -> str:
    """What `--metrics` serves."""
    rows = []
    for family in Counters(lambda: STATUS).collect():
        sample = family.samples[0]
        is_one = family.type != "histogram"
        labels = ", ".join(f"`{label}`" for label in sample.labels) if is_one else ""
        rows.append(
            (
                f"`{sample.name if is_one else family.name}`",
                family.type,
                labels,
                family.documentation,
            )
        )
    return "\n\n".join(
        (
            "# Metrics",
            "What [`--metrics`](../status.md#-metrics) serves to Prometheus. Of the histogram there are "
            "`_bucket`, `_count` and `_sum`. What a mount has not, such as a server, is left out.",
            _table(("metric", "type", "labels", ""), rows),
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
