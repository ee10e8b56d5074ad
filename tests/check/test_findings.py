"""Messages are taken apart into member and clause, and findings shown in one line."""

import pytest

from zarrfuse.check.findings import Finding, Rule, split_message


@pytest.mark.parametrize(
    ("message", "member", "clause"),
    [
        ("shape: is missing", "shape", "is missing"),
        ("is not JSON: it was cut: off", "", "is not JSON: it was cut: off"),
        ("codecs[0]: zstd: 'a: b': unknown member", "codecs[0]: zstd: 'a: b'", "unknown member"),
        ("'it\\'s': unknown member", "'it\\'s'", "unknown member"),
        (
            "codecs[0]: https://a.b/c: 'x': wrong it is",
            "codecs[0]: https://a.b/c: 'x'",
            "wrong it is",
        ),
        ("data_type: 'A b' is no name: at all", "data_type", "'A b' is no name: at all"),
        ("a: b: 5 is: odd", "a: b", "5 is: odd"),
    ],
)
def test_a_message_is_a_member_and_a_clause(message: str, member: str, clause: str) -> None:
    assert split_message(message) == (member, clause)


def test_a_finding_is_a_line() -> None:
    rule = Rule("The book", "1. Rules")
    finding = Finding("error", "a/b", "c/0", "part", "is missing", rule)
    assert finding.line() == "error: a/b/c/0: part: is missing [The book, 1. Rules]"
    assert Finding("warning", "", "", "", "is odd", rule).path == "."
