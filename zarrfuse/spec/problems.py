"""A rule that a metadata document breaks, as a value.

Used by the parts of `zarrfuse.spec` that report every problem instead of raising the first. It must not
know the rules.
"""

from dataclasses import dataclass, replace
from typing import TypeAlias

Rule: TypeAlias = tuple[str, str]
"""The document and section of a rule."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem of one member.

    `member`: its path below the checked member, which is prepended as it is: `codecs` and
    `[1]: configuration: level`; empty for the checked member itself. `clause`: what is wrong, without a
    subject: `must be from 0 to 9, not 12`.
    """

    member: str
    clause: str
    rule: Rule

    def below(self, member: str) -> "Problem":
        """The same problem with `member` in front of its path."""
        return replace(self, member=member + self.member)

    def __str__(self) -> str:
        return f"{self.member}: {self.clause}" if self.member else self.clause
