"""The wheel and the archive of sources have what users get by `pip install`, and PyPI shows them well."""

import os
import re
import sys
import tarfile
import zipfile
from email.message import Message
from email.parser import BytesParser
from pathlib import Path

import pytest
from builders.commands import run

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the archive of sources, and with the wheel that is built of it."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, REPOSITORY)
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    [path] = built.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def names(wheel: Path) -> set[str]:
    """The files of the wheel, without the version in their names."""
    with zipfile.ZipFile(wheel) as archive:
        return {re.sub(r"^zarrfuse-[^/]+\.", "zarrfuse.", name) for name in archive.namelist()}


@pytest.fixture(scope="module")
def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return BytesParser().parsebytes(archive.read(name))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The prefix of an environment with the wheel, and with the libraries of this one."""
    prefix = tmp_path_factory.mktemp("installed")
    run(sys.executable, "-m", "venv", "--without-pip", prefix)
    pip = (sys.executable, "-m", "pip", "--python", prefix / "bin/python", "--quiet")
    run(*pip, "install", "--no-deps", "--no-index", "--no-compile", wheel)
    [site] = prefix.glob("lib/python3.*/site-packages")
    [here] = Path(sys.prefix).glob("lib/python3.*/site-packages")
    (site / "libraries.pth").write_text(
        f"{here}\n"
    )  # zarrfuse is found in `site`, which is before it
    return prefix


def test_pypi_can_show_the_readme(built: Path) -> None:
    run(sys.executable, "-m", "twine", "check", "--strict", *built.iterdir())


def test_links_and_pictures_of_the_readme_are_absolute(metadata: Message) -> None:
    text = metadata.get_payload()
    assert isinstance(text, str)
    targets = re.findall(r"\]\(([^)]+)\)", re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.M))
    assert len(targets) > 20
    assert [each for each in targets if not each.startswith(("https://", "#"))] == []
    assert any(each.endswith("main/docs/images.png") for each in targets)


def test_who_made_it_and_where_it_is(metadata: Message) -> None:
    assert metadata["Author"] == "zarrfuse contributors"
    urls = dict(url.split(", ") for url in metadata.get_all("Project-URL", []))
    assert set(urls) == {"Homepage", "Documentation", "Issues", "Changelog"}


def test_files_beside_the_code_are_in_the_wheel(names: set[str]) -> None:
    data = "zarrfuse.data/data/share"
    wanted = {
        "zarrfuse/py.typed",
        f"{data}/zarrfuse/systemd/system/zarrfuse@.service",
        f"{data}/zarrfuse/systemd/user/zarrfuse@.service",
        f"{data}/zarrfuse/desktop/thunar.xml",
        f"{data}/zarrfuse/desktop/data/nautilus/scripts/Mount with zarrfuse",
        f"{data}/man/man1/zarrfuse.1",
        f"{data}/man/man1/zarrfuse-mount.1",
        f"{data}/man/man8/mount.zarrfuse.8",
        f"{data}/bash-completion/completions/zarrfuse",
        f"{data}/zsh/site-functions/_zarrfuse",
        f"{data}/fish/vendor_completions.d/zarrfuse.fish",
    }
    assert wanted - names == set()


def test_all_modules_are_in_the_wheel_and_nothing_else(names: set[str]) -> None:
    tracked = run("git", "-C", REPOSITORY, "ls-files", "--cached", "--others", "--exclude-standard")
    modules = {name for name in tracked.split() if name.startswith("zarrfuse/")}
    assert {name for name in names if name.startswith("zarrfuse/")} == modules


def test_the_archive_has_what_packages_are_made_of(built: Path) -> None:
    [path] = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {
        "packaging/debian/rules",
        "packaging/generate.py",
        "systemd/system/zarrfuse@.service",
    } <= names


def test_the_installed_command_works(installed: Path, tmp_path: Path) -> None:
    command = installed / "bin/zarrfuse"
    assert run(command, "-V").startswith("zarrfuse ")
    run(command, "install-units", "--user", XDG_CONFIG_HOME=str(tmp_path))
    unit = (tmp_path / "systemd/user/zarrfuse@.service").read_text()
    assert f"ExecStart={command} mount " in unit
    page = run("man", "-M", installed / "share/man", "-P", "cat", "zarrfuse-mount", MANROFFSEQ="")
    assert "--read-write" in page.replace("\b", "")


def test_completion_is_installed_for_the_shell_that_asks(tmp_path: Path) -> None:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    home = {"HOME": str(tmp_path), "PATH": path}
    run("bash", "-c", "zarrfuse --install-completion && true", **home)
    assert "_zarrfuse_completion" in run("bash", "-ic", "complete -p zarrfuse", **home)
