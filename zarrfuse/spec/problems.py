"""One rule that a metadata document breaks.

Used by those parts of `zarrfuse.spec` that look for everything wrong instead of stopping at the
first. It must not know what the rules are.
"""

from dataclasses import dataclass, replace
from typing import TypeAlias

Rule: TypeAlias = tuple[str, str]
"""Where a rule stands: document and section."""


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with one member.

    `member` is its path below the member that was looked at, which is put in front of it as it is:
    `codecs` and `[1]: configuration: level`. It is empty for that member itself. `clause` says what
    is wrong, without a subject: `must be from 0 to 9, not 12`.
    """

    member: str
    clause: str
    rule: Rule

    def below(self, member: str) -> "Problem":
        """The same problem, as seen from where `member` holds the path of this one."""
        return replace(self, member=member + self.member)

    def __str__(self) -> str:
        return f"{self.member}: {self.clause}" if self.member else self.clause
