"""The tutorials, `programs.md` and `platforms.md`: each command works, and ImageJ shows what Fiji is to."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from desktop import Desktop
from pages import follow, options_of, shell_in

Macro = Callable[[str, Path], list[str]]
DOCS = Path(__file__).parents[2] / "docs"
FIJI = "Open it in Fiji"

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


def page(name: str) -> str:
    return (DOCS / name).read_text()


def divided(name: str) -> tuple[str, str, str]:
    """A tutorial up to the step in Fiji, that step, and the rest."""
    before, heading, rest = page(name).partition(f". {FIJI}\n")
    assert heading
    step, heading, after = rest.partition("\n## ")
    return before, step, heading + after


def test_an_ome_zarr_in_fiji(
    tmp_path: Path,
    macro: Macro,
    desktop: Desktop,
    imagej: list[str | Path],
    bioformats: Path,
) -> None:
    before, step, after = divided("tutorials/ome-zarr-in-fiji.md")
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
    before, step, after = divided("tutorials/tiff-folder.md")
    [file] = re.findall(r"`(mnt/\S+\.tiff)`", step)
    with shell_in(tmp_path) as run:
        follow(before, run)
        size, *_ = macro(SHOWN, tmp_path / file)
        follow(after, run)
    assert size in step


def test_the_files_of_the_table_of_programs_are_there(tmp_path: Path) -> None:
    with shell_in(tmp_path) as run:
        assert follow(page("how-to/programs.md"), run) == 2


def test_a_mount_in_a_namespace_needs_no_set_uid_program(tmp_path: Path) -> None:
    """In it there is no `fusermount3`, as on a cluster."""
    before, mount, after = page("how-to/platforms.md").partition("    zarrfuse mount ")
    hidden = '    mount --bind /dev/null "$(command -v fusermount3)"\n'
    with shell_in(tmp_path) as run:
        assert follow(f"{before}{hidden}{mount}{after}", run) == 2
        assert run("ls mnt") == ""


@pytest.mark.parametrize("path", sorted((DOCS / "how-to").glob("*.md")), ids=lambda path: path.stem)
def test_options_of_how_to_pages_are_those_of_mount(path: Path) -> None:
    named = set(re.findall(r"(?<=`)--[a-z-]+", path.read_text()))
    of_containers = {"--device", "--cap-add", "--security-opt"}
    assert named - of_containers <= options_of("mount")
