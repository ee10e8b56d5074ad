"""`docs/troubleshooting.md` has each errno and each message that ends a command; it quotes the code.

A row is one message, or a family: words in capitals, and `...`, stand for anything.
"""

import ast
import errno
import inspect
import os
import re
import shutil
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pyfuse3
import pytest

from zarrfuse import errors

REPOSITORY = Path(__file__).parents[2]
PAGE = (REPOSITORY / "docs/troubleshooting.md").read_text()
PACKAGE = REPOSITORY / "zarrfuse"
SECTIONS = dict(re.findall(r"^## ([^\n]*)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))
ERRNOS = re.findall(r"^\| `(E\w+)` \| ([^|]*) \|", SECTIONS["A program says"], re.MULTILINE)
OWN = [
    each
    for each in SECTIONS
    if each.endswith(" says") and each not in ("A program says", "libfuse says")
]
"""The sections with messages of zarrfuse."""
ENDING_MOUNTS = ("mounts/", "stores/", "check/")
"""Where errors end a command if they are `MountError`; others are answered to programs, or are findings."""
ENDING_COMMANDS = ("cli/", "indexing/", "shards/", "exporting/", "jobs/")
"""Where all errors do."""
NAMES = "HDF5|TIFF|NDPI|JPEG|LERC|OME|NGFF|XML|TOML|UTF|CONTI"
"""Words in capitals that stand for themselves."""
MAKERS_OF_ERRORS = {"fail", "self._fail", "NoCodec"}
"""What is called in `shards/` with the clause behind the name of a file."""


def messages_in(section: str) -> list[str]:
    found = re.findall(r"^\| `([^`]+)` \|", SECTIONS[section], re.MULTILINE)
    assert found
    return found


def clauses_in(tree: ast.AST) -> dict[str, list[str]]:
    """Texts that are given to variables, which stand in messages."""
    found: dict[str, list[str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            given = node.value
            parts = [given.body, given.orelse] if isinstance(given, ast.IfExp) else [given]
            for part in parts:
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    found.setdefault(node.targets[0].id, []).append(re.escape(part.value))
    return found


def patterns_of(text: ast.expr, clauses: dict[str, list[str]]) -> Iterator[str]:
    """Regular expressions of what a literal can say; what differs is anything."""
    if isinstance(text, ast.Constant) and isinstance(text.value, str):
        yield re.sub(r"%[sdr]", ".*", re.escape(text.value))
    elif isinstance(text, ast.JoinedStr):
        for pieces in product(*(list(patterns_of(piece, clauses)) for piece in text.values)):
            yield "".join(pieces)
    elif isinstance(text, ast.IfExp):
        yield from patterns_of(text.body, clauses)
        yield from patterns_of(text.orelse, clauses)
    elif isinstance(text, ast.FormattedValue):
        yield ".*"
        if isinstance(text.value, ast.Name):
            yield from clauses.get(text.value.id, ())


def literals(tree: ast.AST) -> Iterator[str]:
    clauses = clauses_in(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr | ast.Constant):
            yield from patterns_of(node, clauses)


TREES = {path: ast.parse(path.read_text()) for path in PACKAGE.rglob("*.py")}
SAID = {
    pattern: [re.sub(r"\\(.)", r"\1", piece) for piece in pattern.split(".*")]
    for tree in TREES.values()
    for pattern in literals(tree)
    if " " in pattern
}
"""What the code can say, as regular expressions, each with what is always in it."""


SAMPLES = ["X".join(constant) for constant in SAID.values()]
"""A message of each."""


def family_of(message: str) -> re.Pattern[str]:
    """What a row is about: a message, or one behind the name of a file."""
    names = rf"\b(?!{NAMES})[A-Z][A-Z0-9]+\b|\\\.\\\.\\\."
    return re.compile(f"(?:X: )?{re.sub(names, '.*', re.escape(message))}", re.DOTALL)


def is_said(message: str) -> bool:
    """Whether the code says the message, a third of it at least word for word, or one of its family."""
    family = family_of(message)
    if len(family.pattern.replace(".*", "")) > 18 and any(
        family.fullmatch(sample) or family.fullmatch("X: " + sample) for sample in SAMPLES
    ):
        return True
    return any(
        all(piece in message for piece in constant)
        and len("".join(constant)) > len(message) / 3
        and re.fullmatch(pattern, message, re.DOTALL)
        for pattern, constant in SAID.items()
    )


FAMILIES = {message: family_of(message) for section in OWN for message in messages_in(section)}


@pytest.mark.parametrize("message", FAMILIES)
def test_a_quoted_message_is_one_of_the_code(message: str) -> None:
    assert is_said(message)


@pytest.mark.parametrize("message", messages_in("libfuse says"))
def test_a_quoted_message_of_libfuse_is_in_its_programs(message: str) -> None:
    assert pyfuse3.__name__ in sys.modules  # it loads the library
    maps = Path("/proc/self/maps").read_text()
    library, program = re.search(r"/\S*libfuse3\.so\S*", maps), shutil.which("fusermount3")
    assert library is not None
    assert program is not None
    said = (Path(library[0]).read_bytes() + Path(program).read_bytes()).decode("latin-1")
    constant = re.split(r"allow_other(?= only)|/etc/fuse\.conf|Operation.*", message)
    assert max(map(len, constant)) > len(message) / 3
    assert all(part in said for part in constant)


def subclasses_of(name: str) -> set[str]:
    """The names of an exception and of those of the package that are made of it."""
    classes = [
        node for tree in TREES.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)
    ]
    found = {name}
    while (
        new := {each.name for each in classes if found & set(map(ast.unparse, each.bases))} - found
    ):
        found |= new
    return found


def raised_in(folders: tuple[str, ...], makers: set[str]) -> Iterator[tuple[str, str]]:
    """(place, pattern) of each message that is given to an exception, or to what makes one."""
    for path, tree in TREES.items():
        if not path.relative_to(PACKAGE).as_posix().startswith(folders):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in makers and node.args:
                for pattern in patterns_of(node.args[0], {}):
                    if len(pattern.replace(".*", "")) > 12:  # else other messages say it
                        yield f"{path.relative_to(PACKAGE)}:{node.lineno}", pattern


def sample_of(pattern: str) -> str:
    """A message that a pattern matches."""
    return re.sub(r"\\(.)", r"\1", pattern.replace(".*", "X"))


def has_a_row(pattern: str) -> bool:
    said, sample = re.compile(pattern, re.DOTALL), sample_of(pattern)
    return any(
        said.fullmatch(message) or family.fullmatch(sample) or family.fullmatch("X: " + sample)
        for message, family in FAMILIES.items()
    )


@pytest.mark.parametrize(
    ("folders", "makers"),
    [
        (ENDING_MOUNTS, subclasses_of("MountError")),
        (ENDING_COMMANDS, subclasses_of("ZarrfuseError") | MAKERS_OF_ERRORS),
    ],
)
def test_each_message_that_ends_a_command_has_a_row(
    folders: tuple[str, ...], makers: set[str]
) -> None:
    missing = [
        f"{place} {sample_of(pattern)}"
        for place, pattern in raised_in(folders, makers)
        if not has_a_row(pattern)
    ]
    assert missing == []


def test_each_errno_that_a_mount_answers_has_a_row() -> None:
    classes = {
        each.errno
        for each in vars(errors).values()
        if inspect.isclass(each) and issubclass(each, errors.ZarrfuseError)
    }
    system = {
        number for number in errno.errorcode if errors.errno_of(OSError(number, "")) == number
    }
    by_the_kernel = {errno.ENOTCONN}
    assert {getattr(errno, name) for name, _ in ERRNOS} == classes | system | by_the_kernel


@pytest.mark.parametrize(("name", "text"), ERRNOS)
def test_the_text_of_an_errno_is_that_of_the_system(name: str, text: str) -> None:
    assert os.strerror(getattr(errno, name)) == text.strip()
