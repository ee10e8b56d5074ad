"""`zarrfuse install-desktop`: what desktops read of it, what it keeps, and that it goes without a trace."""

import os
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path

import pytest
from builders.commands import run
from builders.folders import files_below
from builders.homes import home
from builders.mounts import ENVIRONMENT, zarrfuse
from builders.pages import blocks

__all__ = ["home"]

PROGRAM = Path(sys.executable).with_name("zarrfuse")
FILES = {
    "applications/zarrfuse.desktop",
    "file-manager/actions/zarrfuse.desktop",
    "icons/hicolor/scalable/apps/zarrfuse.svg",
    "mime/packages/zarrfuse.xml",
    "nautilus/scripts/Mount with zarrfuse",
    "nemo/actions/zarrfuse.nemo_action",
}
CACHES = ("mime/", "applications/mimeinfo.cache")
"""What programs of the desktop make of these files."""
USERS = """<?xml version="1.0" encoding="UTF-8"?>
<!-- mine -->
<actions>
<action>
\t<icon>x</icon>
\t<name>Größe &amp; Zahl</name>
\t<unique-id>1700000000000000-1</unique-id>
\t<command>du -sh %F | xmessage -file -</command>
\t<patterns>*</patterns>
\t<directories/>
</action>
</actions>
"""


@pytest.fixture
def data(home: Path) -> Path:
    return home / ".local/share"


@pytest.fixture
def thunar(home: Path) -> Path:
    """The actions of Thunar of the user, who has some."""
    path = home / ".config/Thunar/uca.xml"
    path.parent.mkdir(parents=True)
    path.write_text(USERS)
    return path


def installed(data: Path) -> set[str]:
    return {name for name in files_below(data) if name in FILES or not name.startswith(CACHES)}


def actions_of(path: Path) -> list[str | None]:
    return [action.findtext("unique-id") for action in ElementTree.parse(path).iter("action")]


def test_all_files_run_this_program(data: Path, thunar: Path) -> None:
    zarrfuse("install-desktop")
    assert installed(data) == FILES
    for name in FILES - {"icons/hicolor/scalable/apps/zarrfuse.svg", "mime/packages/zarrfuse.xml"}:
        text = (data / name).read_text()
        assert f"{PROGRAM} open " in text
        assert "/usr/bin/env" not in text
    assert os.access(data / "nautilus/scripts/Mount with zarrfuse", os.X_OK)
    assert [a.findtext("command") for a in ElementTree.parse(thunar).iter("action")][1:] == [
        f"{PROGRAM} open %f"
    ] * 2


def test_a_second_time_changes_nothing(data: Path, thunar: Path) -> None:
    zarrfuse("install-desktop")
    before = {name: (data / name).read_bytes() for name in FILES}, thunar.read_bytes()
    zarrfuse("install-desktop")
    assert ({name: (data / name).read_bytes() for name in FILES}, thunar.read_bytes()) == before


def test_uninstalled_nothing_of_it_is_left(data: Path, thunar: Path) -> None:
    before = thunar.read_bytes()
    zarrfuse("install-desktop")
    zarrfuse("install-desktop", "--uninstall")
    assert installed(data) == set()
    assert b"zarrfuse" not in b"".join(files_below(data).values())
    assert thunar.read_bytes() == before


def test_a_file_of_somebody_else_is_kept(data: Path) -> None:
    own = data / "nautilus/scripts/Mount with zarrfuse"
    own.parent.mkdir(parents=True)
    own.write_text("#!/bin/sh\nmine\n")
    done = zarrfuse("install-desktop", check=False)
    assert done.returncode == 1
    assert f"{own} is not of zarrfuse: move it away" in done.stderr
    assert files_below(data) == {"nautilus/scripts/Mount with zarrfuse": b"#!/bin/sh\nmine\n"}
    zarrfuse("install-desktop", "--uninstall")
    assert own.read_text() == "#!/bin/sh\nmine\n"


@pytest.fixture
def typed(home: Path) -> Iterator[Path]:
    """A folder with a file of each kind, after the installation."""
    zarrfuse("install-desktop")
    folder = home / "data"
    (folder / "cells.ome.zarr").mkdir(parents=True)
    for name in ("A.OZX", "b.ozx", "c.ome.zarr.zip", "d.zip"):
        (folder / name).write_bytes(b"PK\5\6" + bytes(18))
    return folder


@pytest.mark.parametrize(
    ("name", "type_", "icon", "program"),
    [
        ("A.OZX", "application/x-ozx", "zarrfuse", "zarrfuse.desktop"),
        ("b.ozx", "application/x-ozx", "zarrfuse", "zarrfuse.desktop"),
        ("c.ome.zarr.zip", "application/x-zarr-zip", "zarrfuse", "zarrfuse.desktop"),
        ("d.zip", "application/zip", "application-zip", None),
        ("cells.ome.zarr", "inode/directory", "inode-directory", None),
    ],
)
def test_the_desktop_knows_types_icons_and_the_program(
    typed: Path, name: str, type_: str, icon: str, program: str | None
) -> None:
    told = run("gio", "info", "-a", "standard::content-type,standard::icon", typed / name)
    lines = dict(line.strip().split(": ", 1) for line in told.splitlines() if ": " in line)
    assert lines["standard::content-type"] == type_
    assert lines["standard::icon"].split(", ")[0] == icon
    assert run("xdg-mime", "query", "filetype", typed / name, XDG_CURRENT_DESKTOP="GNOME") == (
        f"{type_}\n"
    )
    default = run("xdg-mime", "query", "default", type_).strip()
    assert default == program if program else default != "zarrfuse.desktop"


def test_entries_and_documents_are_valid(data: Path) -> None:
    zarrfuse("install-desktop")
    assert run("desktop-file-validate", data / "applications/zarrfuse.desktop") == ""
    for name in ("mime/packages/zarrfuse.xml", "icons/hicolor/scalable/apps/zarrfuse.svg"):
        run("xmllint", "--noout", data / name)
    assert run("sh", "-n", data / "nautilus/scripts/Mount with zarrfuse") == ""


def test_actions_of_thunar_keep_those_of_the_user(thunar: Path) -> None:
    zarrfuse("install-desktop")
    text = thunar.read_text()
    assert USERS.removesuffix("</actions>\n") in text
    assert actions_of(thunar) == ["1700000000000000-1", "zarrfuse-folder", "zarrfuse-file"]


def test_a_user_without_actions_keeps_those_of_the_system(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of one's own hides that of the system, until it goes."""
    (home / "xdg/Thunar").mkdir(parents=True)
    (home / "xdg/Thunar/uca.xml").write_text(USERS.replace("<actions>", "<actions >"))
    (home / ".config/Thunar").mkdir(parents=True)
    monkeypatch.setenv("XDG_CONFIG_DIRS", f"{home}/missing:{home}/xdg")
    zarrfuse("install-desktop")
    path = home / ".config/Thunar/uca.xml"
    assert actions_of(path) == ["1700000000000000-1", "zarrfuse-folder", "zarrfuse-file"]
    zarrfuse("install-desktop", "--uninstall")
    assert not path.exists()


@pytest.mark.parametrize(
    ("text", "said"), [("<actions><action></actions>", "is no XML"), ("<a/>", "has no actions")]
)
def test_a_broken_file_of_thunar_is_kept_and_named(
    data: Path, thunar: Path, text: str, said: str
) -> None:
    thunar.write_text(text)
    done = zarrfuse("install-desktop", check=False)
    assert done.returncode == 1
    assert f"{thunar} {said}" in done.stderr
    assert thunar.read_text() == text
    assert files_below(data) == {}


def test_uninstalled_also_the_desktop_forgets_it_although_thunar_has_a_broken_file(
    data: Path, thunar: Path
) -> None:
    zarrfuse("install-desktop")
    thunar.write_text("<a/>")
    done = zarrfuse("install-desktop", "--uninstall", check=False)
    assert done.returncode == 1
    assert f"{thunar} has no actions" in done.stderr
    assert installed(data) == set()
    assert b"zarrfuse" not in b"".join(files_below(data).values())


def test_actions_in_another_encoding_are_read(thunar: Path) -> None:
    thunar.write_bytes(USERS.replace("UTF-8", "ISO-8859-1").encode("latin-1"))
    zarrfuse("install-desktop")
    assert ElementTree.parse(thunar).findtext("action/name") == "Größe & Zahl"


def test_a_symlink_to_the_actions_and_their_mode_stay(thunar: Path, home: Path) -> None:
    thunar.chmod(0o640)
    thunar.rename(home / "dotfile")
    thunar.symlink_to(home / "dotfile")
    zarrfuse("install-desktop")
    zarrfuse("install-desktop", "--uninstall")
    assert thunar.is_symlink()
    assert (home / "dotfile").read_text() == USERS
    assert (home / "dotfile").stat().st_mode & 0o777 == 0o640


def test_a_program_in_a_folder_with_spaces_is_quoted(
    tmp_path: Path, data: Path, thunar: Path
) -> None:
    """An environment of its own, made of links to the one that runs this."""
    prefix = tmp_path / "my & programs"
    (prefix / "bin").mkdir(parents=True)
    here = Path(sys.prefix)
    for name in ("lib", "share"):
        (prefix / name).symlink_to(here / name)
    (prefix / "pyvenv.cfg").write_bytes((here / "pyvenv.cfg").read_bytes())
    (prefix / "bin/python").symlink_to(Path(sys.executable).resolve())
    run(
        *(prefix / "bin/python", "-m", "zarrfuse", "install-desktop"),
        PYTHONPATH=ENVIRONMENT["PYTHONPATH"],
    )
    program = f'"{prefix}/bin/zarrfuse"'
    assert f"Exec={program} open %f\n" in (data / "applications/zarrfuse.desktop").read_text()
    assert run("desktop-file-validate", data / "applications/zarrfuse.desktop") == ""
    assert (
        ElementTree.parse(thunar).findall("action")[1].findtext("command") == f"{program} open %f"
    )


def test_a_program_that_no_entry_can_name_is_refused(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from zarrfuse.cli import install_desktop
    from zarrfuse.errors import ZarrfuseError

    monkeypatch.setattr(install_desktop, "program", lambda: Path('/opt/a"b/zarrfuse'))
    with pytest.raises(ZarrfuseError, match="can't be named in desktop files"):
        install_desktop.install_desktop()
    assert files_below(data) == {}


def test_the_commands_of_the_page(data: Path, thunar: Path) -> None:
    install, uninstall = (block.text for block in blocks("docs/desktop.md", "sh"))
    path = f"{PROGRAM.parent}:{os.environ['PATH']}"
    run("sh", "-e", "-c", install, PATH=path)
    assert installed(data) == FILES
    run("sh", "-e", "-c", uninstall, PATH=path)
    assert installed(data) == set()
