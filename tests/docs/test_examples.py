"""Each example of the documentation is run by a test.

Commands stand in blocks of `sh`, what commands print in blocks of `console`, code in blocks of `python`.
What no test can run, such as commands that install packages, stands in blocks without a language.
"""

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
REPOSITORY = TESTS.parent
PAGES = sorted([REPOSITORY / "README.md", *(REPOSITORY / "docs").rglob("*.md")])
RUN_BY = {
    "README.md": "apps/test_readme.py",
    "docs/check.md": "check/test_check_page.py",
    "docs/desktop.md": "cli/test_install_desktop.py",
    "docs/extensions.md": "mounts/test_extensions_mount.py",
    "docs/how-to/platforms.md": "apps/test_program_pages.py",
    "docs/how-to/programs.md": "apps/test_program_pages.py",
    "docs/mount.md": "mounts/test_mount_page.py",
    "docs/python.md": "zarr_python/test_python_page.py",
    "docs/tiff-shards.md": "apps/test_tiff_shards_page.py",
    "docs/tutorials/ome-zarr-in-fiji.md": "apps/test_program_pages.py",
    "docs/tutorials/tiff-folder.md": "apps/test_program_pages.py",
}


def has_examples(page: Path) -> bool:
    return re.search(r"^```(sh|console|python)\b", page.read_text(), re.MULTILINE) is not None


def test_pages_with_examples_are_run() -> None:
    pages = {str(page.relative_to(REPOSITORY)) for page in PAGES if has_examples(page)}
    assert pages == set(RUN_BY)


@pytest.mark.parametrize(("page", "test"), RUN_BY.items())
def test_the_test_of_a_page_reads_it(page: str, test: str) -> None:
    assert Path(page).name in (TESTS / test).read_text()
