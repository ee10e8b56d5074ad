"""`docs/troubleshooting.md` has each errno and each message of a mount; what it quotes is in the code."""

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
OWN = ("`zarrfuse mount` says", "`zarrfuse unmount` says", "The log says")


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


def is_said(message: str) -> bool:
    """Whether a literal of the code is the message, a third of it at least word for word."""
    return any(
        all(piece in message for piece in constant)
        and len("".join(constant)) > len(message) / 3
        and re.fullmatch(pattern, message, re.DOTALL)
        for pattern, constant in SAID.items()
    )


@pytest.mark.parametrize("message", [each for section in OWN for each in messages_in(section)])
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


def raised_in(*folders: str) -> Iterator[tuple[str, str]]:
    """(place, pattern) of each message of an error that ends `zarrfuse mount`."""
    ends = {
        name
        for name, each in vars(errors).items()
        if inspect.isclass(each) and issubclass(each, errors.MountError)
    }
    for path, tree in TREES.items():
        if not path.relative_to(PACKAGE).as_posix().startswith(folders):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ends and node.args:
                for pattern in patterns_of(node.args[0], {}):
                    yield f"{path.name}:{node.lineno}", pattern


def test_each_reason_why_a_mount_fails_has_a_row() -> None:
    quoted = [message for section in OWN for message in messages_in(section)]
    missing = [
        (place, pattern)
        for place, pattern in raised_in("mounts/", "stores/opening.py", "stores/trust.py")
        if not any(re.fullmatch(pattern, message, re.DOTALL) for message in quoted)
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
