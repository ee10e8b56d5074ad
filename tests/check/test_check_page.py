"""`docs/check.md` is true: its table has the rules that are cited, and no others; its code runs."""

import re
from pathlib import Path

import pytest
from builders.documents import array, group
from builders.folders import write_keys
from builders.mounts import zarrfuse
from builders.pages import blocks
from corpus import CASES, OTHER_RULES

from zarrfuse.check import rules

PAGE = (Path(__file__).parents[2] / "docs" / "check.md").read_text()


def general(document: str, section: str) -> tuple[str, str]:
    """A rule as the table has it: one row for what is the same in many documents."""
    own_rows = {
        ("crc32c codec", "Format and algorithm"),
        ("packbits codec", "Supported data types"),
    }
    if (document, section) in own_rows or section == "Binary shard format":
        return document, section
    return re.sub(r"\S+ (codec|data type)$", r"*name* \1", document), section


def test_the_table_has_every_rule_that_a_broken_dataset_breaks_and_no_other() -> None:
    table = PAGE.partition("| what | document | section |")[2].partition("\n\n")[0]
    rows = [tuple(re.split(r" \| ", line.strip("| "))[1:]) for line in table.splitlines()[2:]]
    cited = {rule for case in CASES for _, _, _, rule in case.expected} | set(OTHER_RULES)
    assert len(set(rows)) == len(rows)
    assert set(rows) == {general(*rule) for rule in cited}


def test_every_rule_of_the_code_is_broken_by_some_dataset() -> None:
    cited = {rule for case in CASES for _, _, _, rule in case.expected} | set(OTHER_RULES)
    ours = {tuple(value) for value in vars(rules).values() if isinstance(value, rules.Rule)}
    assert ours <= cited


def test_the_lines_and_the_document_shown_are_those_of_a_check(tmp_path: Path) -> None:
    keys = {f"a/c/{row}/{column}": b"1234" for row, column in ((0, 1), (1, 0), (1, 1))}
    keys |= {"zarr.json": group(), "a/zarr.json": array(), "a/c/0/0": b"123"}
    write_keys(tmp_path, keys)
    [shown] = blocks("docs/check.md", "json")
    printed = zarrfuse("check", tmp_path, "--json", check=False).stdout
    assert printed.replace(str(tmp_path), "data") == shown.text
    (tmp_path / "a/c/0/9").write_bytes(b"1234")
    assert zarrfuse("check", tmp_path, check=False).stdout in PAGE


def test_the_code_of_the_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_keys(tmp_path / "data", {"zarr.json": b"{}"})
    monkeypatch.chdir(tmp_path)
    [code] = blocks("docs/check.md", "python")
    exec(compile(code.text, "docs/check.md", "exec"), {})
    assert "zarr.json zarr_format is missing" in capsys.readouterr().out
