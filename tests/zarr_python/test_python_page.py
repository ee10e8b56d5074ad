"""The examples of `docs/python.md`, run in the order they stand there; and what importing costs."""

import subprocess
import sys
from pathlib import Path

import pytest
from builders.pages import blocks

BLOCKS = [block.text for block in blocks("docs/python.md", "python")]


def test_each_example_of_the_page_runs(
    tmp_path: Path, demo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "zarrfuse-demo").mkdir()
    (tmp_path / "zarrfuse-demo/data").symlink_to(demo)
    monkeypatch.chdir(tmp_path)
    assert len(BLOCKS) >= 8
    names: dict[str, object] = {}
    for block in BLOCKS:
        exec(compile(block, "docs/python.md", "exec"), names)


def test_the_readme_shows_an_example_of_the_page() -> None:
    assert [block.text for block in blocks("README.md", "python")] == BLOCKS[:1]


@pytest.mark.parametrize(
    ("module", "without"),
    [
        ("zarrfuse", {"zarr", "numpy", "trio", "pyfuse3"}),
        # zarr-python imports the plug-in whenever it opens any array: that must not take long, nor
        # fail where nothing can be mounted.
        ("zarrfuse.zarr_python.plug_in", {"trio", "pyfuse3", "rich", "typer", "zarrfuse.views"}),
        ("zarrfuse.zarr_python.store", {"trio", "pyfuse3", "rich", "typer"}),
    ],
)
def test_imports_bring_no_more_than_they_need(module: str, without: set[str]) -> None:
    code = f"import sys, {module}; print(*{without!r} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.split() == []
