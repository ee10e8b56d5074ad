"""Each broken dataset of the corpus is told of: each fault, and nothing else."""

from pathlib import Path

import pytest
from builders.folders import write_keys, zip_folder
from corpus import CASES, Case

from zarrfuse.check import findings


def found_in(source: Path, deep: bool) -> list[tuple[str, str, str, tuple[str, str]]]:
    return sorted(
        (finding.level, finding.path, finding.member, tuple(finding.rule))
        for finding in findings(str(source), deep=deep)
    )


def test_the_corpus_has_many_datasets_each_with_a_name_of_its_own() -> None:
    assert len(CASES) >= 120
    assert len({case.name for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_each_fault_is_named_and_nothing_else(tmp_path: Path, case: Case) -> None:
    write_keys(tmp_path / "data", case.files)
    expected = sorted(case.expected)
    if case.deep:
        assert found_in(tmp_path / "data", deep=False) == []
    assert found_in(tmp_path / "data", deep=case.deep) == expected
    zip_folder(tmp_path / "data", tmp_path / "data.zip")
    assert found_in(tmp_path / "data.zip", deep=case.deep) == expected
