"""Programs copy trees into and out of a mount, and keep repositories and databases in it, as on a disk."""

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from builders.documents import array, group
from builders.folders import write_keys
from desktop import program

Mounted = Callable[..., Path]
VIEWS = pytest.mark.parametrize("view", ["raw", "chunks", "plain"])


@pytest.fixture
def folder(view: str, tmp_path: Path, mounted: Mounted) -> Path:
    """A folder of a mount of a dataset, which belongs to no array."""
    keys = {"zarr.json": group(), "a/zarr.json": array((8, 8)), "a/c/0/0": b"abcd"}
    write_keys(tmp_path / "store", {**keys, "folder/README": b"text"})
    return mounted(tmp_path / "store", "--view", view, "--read-write") / "folder"


def run(*command: str | Path, cwd: Path) -> str:
    """Run a program that must succeed, with nothing to complain about; what it printed."""
    ran = subprocess.run(
        [program(str(command[0])), *command[1:]],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=cwd,
        env={**os.environ, "LC_ALL": "C", "HOME": str(cwd), "GIT_CONFIG_NOSYSTEM": "1"},
    )
    assert (ran.returncode, ran.stderr) == (0, ""), ran
    return ran.stdout


# -- trees -------------------------------------------------------------------------------------


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Files with modes, times, owners, symlinks and a second name."""
    write_keys(tmp_path / "tree", {"a": b"a", "sub/program": b"#!", "sub/deep/b": b"b" * 5000})
    tree = tmp_path / "tree"
    (tree / "sub/link").symlink_to("program")
    (tree / "sub/deep/up").symlink_to("../..")
    (tree / "nowhere").symlink_to("nothing")
    os.link(tree / "a", tree / "sub/second")
    (tree / "empty").mkdir()
    (tree / "sub/deep/b").chmod(0o640)
    (tree / "empty").chmod(0o1777)
    if os.getuid() == 0:
        for name in ("a", "sub/deep", "nowhere"):
            os.lchown(tree / name, 12345, 12346)
    (tree / "sub/program").chmod(0o4711)
    for number, path in enumerate(sorted(tree.rglob("*"), reverse=True)):
        times = 10**18, 10**18 + number * 10**9 + 123_456_789
        os.utime(path, ns=times, follow_symlinks=False)
    return tree


def told(tree: Path) -> dict[str, tuple[object, ...]]:
    """All of a tree that a copy has to have; how many folders are in one is not counted in a mount."""
    found: dict[str, tuple[object, ...]] = {}
    for path in tree.rglob("*"):
        status = path.lstat()
        content: object = None
        if path.is_symlink():
            content = os.readlink(path)
        elif path.is_file():
            content = path.read_bytes()
        links = 1 if path.is_dir() else status.st_nlink
        owner = status.st_uid, status.st_gid
        name = path.relative_to(tree).as_posix()
        found[name] = (status.st_mode, *owner, links, status.st_mtime_ns, content)
    return found


def _by_tar(source: Path, target: Path) -> None:
    packed = source.parent / "packed.tar"
    run("tar", "--format=posix", "-cf", packed, source.name, cwd=source.parent)
    run("tar", "-xpf", packed, "--transform", f"s/^{source.name}/{target.name}/", cwd=target.parent)
    packed.unlink()


def _by_mv(source: Path, target: Path) -> None:
    run("mv", source, target, cwd=source.parent)
    assert not source.exists()


COPIES: dict[str, Callable[[Path, Path], object]] = {
    "rsync -aH": lambda source, target: run(
        "rsync", "-aH", f"{source}/", target, cwd=target.parent
    ),
    "cp -a": lambda source, target: run("cp", "-a", source, target, cwd=target.parent),
    "tar": _by_tar,
    "mv": _by_mv,
}


@VIEWS
@pytest.mark.parametrize("way", COPIES)
def test_a_tree_comes_in_and_out_as_it_was(way: str, folder: Path, tree: Path) -> None:
    expected = told(tree)
    COPIES[way](tree, folder / "in")
    assert told(folder / "in") == expected
    COPIES[way](folder / "in", tree.with_name("out"))
    assert told(tree.with_name("out")) == expected


@pytest.mark.parametrize("view", ["chunks"])
def test_rsync_finds_nothing_to_do_a_second_time(folder: Path, tree: Path) -> None:
    run("rsync", "-aH", f"{tree}/", folder / "in", cwd=tree)
    assert run("rsync", "-aHi", "--delete", f"{tree}/", folder / "in", cwd=tree) == ""


# -- repositories and databases ----------------------------------------------------------------


@pytest.mark.parametrize("view", ["chunks"])
def test_git_works_in_a_folder(folder: Path) -> None:
    repository = folder / "repository"
    repository.mkdir()

    def git(*command: str) -> str:
        return run("git", "-c", "user.name=a", "-c", "user.email=a@b", *command, cwd=repository)

    git("init", "-q", "-b", "one")
    (repository / "text").write_text("1\n" * 1000)
    (repository / "link").symlink_to("text")
    git("add", ".")
    git("commit", "-qm", "first")
    git("checkout", "-q", "-b", "two")
    (repository / "text").write_text("2\n" * 1000)
    git("commit", "-qam", "second")
    git("checkout", "-q", "one")
    assert (repository / "link").read_text() == "1\n" * 1000
    git("gc", "-q")
    git("fsck", "--no-progress")
    assert git("status", "--short") == ""
    assert git("log", "--format=%s", "two").split() == ["second", "first"]
    shutil.rmtree(repository)


WRITER = """
import sqlite3, sys
database = sqlite3.connect(sys.argv[1], timeout=60, isolation_level=None)
for number in range(50):
    database.execute("begin immediate")
    (count,) = database.execute("select count from counts").fetchone()
    database.execute("update counts set count = ?", (count + 1,))
    database.execute("insert into rows values (?, ?)", (sys.argv[2], number))
    database.execute("commit")
"""


@pytest.mark.parametrize("view", ["chunks"])
@pytest.mark.parametrize("mode", ["delete", "wal"])
def test_two_programs_write_one_sqlite_database(mode: str, folder: Path, tmp_path: Path) -> None:
    path = folder / "database"
    database = sqlite3.connect(path, timeout=60, isolation_level=None)
    assert database.execute(f"pragma journal_mode={mode}").fetchone() == (mode,)
    database.execute("create table counts (count)")
    database.execute("create table rows (who, number)")
    database.execute("insert into counts values (0)")
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, path, who]) for who in "ab"]
    assert [writer.wait(60) for writer in writers] == [0, 0]
    assert database.execute("select count from counts").fetchone() == (100,)
    assert database.execute("select count(*) from rows").fetchone() == (100,)
    database.execute("vacuum")
    assert database.execute("pragma integrity_check").fetchone() == ("ok",)
    database.close()
    assert set(os.listdir(folder)) == {"README", "database"}
    stored = sqlite3.connect(tmp_path / "store/folder/database")
    assert stored.execute("select count from counts").fetchone() == (100,)
    stored.close()
