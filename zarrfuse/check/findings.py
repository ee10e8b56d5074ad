"""A finding of `check`: what is wrong, where, and which rule it breaks.

Owns how findings are written as a line and as JSON. Used by all modules of `check`. It must not know how
they are found.
"""

import re
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

from zarrfuse.errors import printable

Level: TypeAlias = Literal["error", "warning"]
"""An error breaks a rule; a warning is a problem for some readers, tools or people."""


class Rule(NamedTuple):
    """Where a rule is written down."""

    document: str
    section: str

    def __str__(self) -> str:
        return f"{self.document}, {self.section}"


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of one document or chunk, without its path.

    `member`: the path of the member (`codecs[0]: configuration: level`), the part or the inner chunk; empty
    for the whole. `problem`: a clause that continues `member`.
    """

    level: Level
    member: str
    problem: str
    rule: Rule

    def at(self, node: str, file: str) -> "Finding":
        """This fault as a finding on `file` of `node`."""
        return Finding(self.level, node, file, self.member, self.problem, self.rule)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong with a dataset.

    `node` is the path of the array, group or folder (empty for the root), `file` the document, chunk
    key or other file in it, relative to it (empty for the folder itself); the rest as in `Fault`.
    """

    level: Level
    node: str
    file: str
    member: str
    problem: str
    rule: Rule

    @property
    def path(self) -> str:
        """The path of the file, or folder, in the source; `.` is the source itself."""
        return "/".join(name for name in (self.node, self.file) if name) or "."

    def line(self) -> str:
        """The finding in one printable line."""
        where = f"{self.path}: {self.member}: " if self.member else f"{self.path}: "
        return printable(f"{self.level}: {where}{self.problem} [{self.rule}]")

    def to_json(self) -> dict[str, Any]:
        """The finding as JSON values."""
        return {
            "level": self.level,
            "node": self.node,
            "file": self.file,
            "member": self.member,
            "problem": self.problem,
            "rule": {"document": self.rule.document, "section": self.rule.section},
        }


# A segment of a member's path, before a colon: a URI-based name, a name with indices, or an unknown name
# in quotes.
_SEGMENT = re.compile(r"""(?:https?://\S+|[^\s:'"]+|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"): """)


def split_message(message: str) -> tuple[str, str]:
    """(the path of the member, the clause) of a message of `zarrfuse.spec`.

    Such a message is the path of the member, a colon and one clause (`spec.members`); only a clause has
    spaces. The path of a message on the whole document is empty.
    """
    end = 0
    while segment := _SEGMENT.match(message, end):
        end = segment.end()
    return message[:end].removesuffix(": "), message[end:]
