"""The tutorials and the pages of `how-to`: each command works, and ImageJ shows what Fiji is to."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from builders.pages import Block, blocks, follow, options_of, shell_in
from desktop import Desktop

Macro = Callable[[str, Path], list[str]]
DOCS = Path(__file__).parents[2] / "docs"
FIJI = "4. Open it in Fiji"

SHOWN = """
open(getArgument());
getDimensions(width, height, channels, slices, frames);
getVoxelSize(x, y, z, unit);
print(channels + " channels and " + slices + " slices");
print(x + " " + unit, y + " " + unit, z + " " + unit);
for (c = 1; c <= channels; c++) {
    Stack.setChannel(c);
    getLut(reds, greens, blues);
    print(reds[255], greens[255], blues[255]);
}
"""
VIRTUAL = """
run("Bio-Formats Importer", "open=[" + getArgument() + "] view=Hyperstack use_virtual_stack series_1");
getDimensions(width, height, channels, slices, frames);
print("size", width, channels, slices, is("Virtual Stack"));
"""


def divided(shown: list[Block]) -> tuple[list[Block], list[Block]]:
    """The blocks of a tutorial before and after the step in Fiji, which has none."""
    before = [block for block in shown if block.section < FIJI]
    after = [block for block in shown if block.section > FIJI]
    assert before
    assert before + after == shown
    return before, after


def step_in_fiji(page: str) -> str:
    """What a tutorial says about it."""
    return (DOCS / page).read_text().partition(f"## {FIJI}\n")[2].partition("\n## ")[0]


def test_an_ome_zarr_in_fiji(
    tmp_path: Path,
    macro: Macro,
    desktop: Desktop,
    imagej: list[str | Path],
    bioformats: Path,
) -> None:
    before, after = divided(blocks("docs/tutorials/ome-zarr-in-fiji.md", "sh", "console"))
    step = step_in_fiji("tutorials/ome-zarr-in-fiji.md")
    array, pyramid = re.findall(r"`(mnt/\S+\.tiff)`", step)
    (desktop.home / "plugins").mkdir()
    (desktop.home / "plugins" / bioformats.name).symlink_to(bioformats)
    (desktop.home / "macro.ijm").write_text(VIRTUAL)
    with shell_in(tmp_path) as run:
        follow(before, run)
        size, steps, *colours = macro(SHOWN, tmp_path / array)
        arguments = [*imagej, "-batch", desktop.home / "macro.ijm", tmp_path / pyramid]
        printed = desktop.run("java", *arguments, timeout_s=90).splitlines()
        follow(after, run)
    assert size in step
    assert steps == "0.5 µm 0.5 µm 2 µm"
    assert "0.5 µm and planes 2 µm apart" in " ".join(step.split())
    assert colours == ["0 255 255", "255 0 255"]
    assert "in cyan and magenta" in step
    assert "size 256 2 3 1" in printed


def test_a_folder_of_tiffs_in_fiji(tmp_path: Path, macro: Macro) -> None:
    before, after = divided(blocks("docs/tutorials/tiff-folder.md", "sh", "console"))
    step = step_in_fiji("tutorials/tiff-folder.md")
    [file] = re.findall(r"`(mnt/\S+\.tiff)`", step)
    with shell_in(tmp_path) as run:
        follow(before, run)
        size, *_ = macro(SHOWN, tmp_path / file)
        follow(after, run)
    assert size in step


def test_the_files_of_the_table_of_programs_are_there(tmp_path: Path) -> None:
    with shell_in(tmp_path) as run:
        follow(blocks("docs/how-to/programs.md", "sh"), run)


def test_a_mount_in_a_namespace_needs_no_set_uid_program(tmp_path: Path) -> None:
    """In it there is no `fusermount3`, as on a cluster."""
    mount = "    zarrfuse mount "
    hidden = '    mount --bind /dev/null "$(command -v fusermount3)"\n'
    shown = blocks("docs/how-to/platforms.md", "sh")
    assert sum(mount in block.text for block in shown) == 1
    with shell_in(tmp_path) as run:
        follow(
            (block._replace(text=block.text.replace(mount, hidden + mount)) for block in shown), run
        )
        assert run("ls mnt") == ""


@pytest.mark.parametrize(
    "block", blocks("docs/how-to/views.md", "sh"), ids=lambda each: each.section
)
def test_each_view_shows_what_its_section_uses(block: Block, demo: Path, tmp_path: Path) -> None:
    (tmp_path / "zarrfuse-demo").mkdir()
    (tmp_path / "zarrfuse-demo/data").symlink_to(demo)
    (tmp_path / "mnt").mkdir()
    with shell_in(tmp_path) as run:
        run(block.text)


@pytest.mark.parametrize("path", sorted((DOCS / "how-to").glob("*.md")), ids=lambda path: path.stem)
def test_options_of_how_to_pages_are_those_of_mount(path: Path) -> None:
    named = set(re.findall(r"(?<=`)--[a-z-]+", path.read_text()))
    of_containers = {"--device", "--cap-add", "--security-opt"}
    assert named - of_containers <= options_of("mount")
