"""On a Debian that has nothing yet: the two commands of the README, and the package, which leaves no trace.

Debian is installed anew, and packages are fetched and built, which takes minutes: only with --thorough.
"""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from builders.debian_root import DebianRoot
from builders.other_users import public_folder
from sampling import is_thorough

REPOSITORY = Path(__file__).parents[2]

pytestmark = [
    pytest.mark.skipif(not is_thorough(), reason="takes five minutes: make test-thorough"),
    pytest.mark.timeout(900),
    pytest.mark.xdist_group("bare debian"),
]


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    with public_folder() as folder:
        yield folder


@pytest.fixture(scope="module")
def bare(place: Path) -> DebianRoot:
    """A root that no test changes."""
    root = DebianRoot(place / "bare")
    root.make()
    return root


@pytest.fixture
def root(bare: DebianRoot, place: Path) -> Iterator[DebianRoot]:
    """A root of a test."""
    folder = place / "root"
    subprocess.run(["cp", "-a", "--reflink=auto", bare.folder, folder], check=True)
    yield DebianRoot(folder)
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def package(place: Path) -> Path:
    """The .deb, built by Debian's own tools."""
    done = subprocess.run(
        [REPOSITORY / "packaging/debian/build", place / "packages"],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    return Path(done.stdout.split()[-1])


def test_the_commands_of_the_readme_set_up_what_they_need(root: DebianRoot) -> None:
    subprocess.run(["git", "clone", "-q", REPOSITORY, root.folder / "srv/zarrfuse"], check=True)
    said = root.run(
        """apt-get update -qq
        apt-get install -y -qq --no-install-recommends git make >/dev/null
        git clone -q /srv/zarrfuse /root/zarrfuse
        cd /root/zarrfuse
        make demo
        .venv/bin/zarrfuse unmount zarrfuse-demo/mnt
        make test ARGS="-n 0 -q tests/spec/test_names.py tests/mounts/test_mounted_tree.py"
        """
    )
    assert "cells.zarr/zstd/c/0/1.tiff is a TIFF" in said
    assert " passed" in said
    assert " failed" not in said


def test_the_package_is_installed_mounts_and_is_removed_without_a_trace(
    root: DebianRoot, package: Path
) -> None:
    root.run("apt-get update -qq; apt-get install -y -qq --no-install-recommends python3 man-db")
    root.run("useradd -m ann; ln -s /proc/self/mounts /etc/mtab")
    before = root.names()
    shutil.copy(package, root.folder / "srv")
    install = f"apt-get install -y -qq --no-install-recommends /srv/{package.name}"
    root.run(f"{install}; {install} --reinstall")
    said = root.run(USE)
    assert said.splitlines() == [
        *("ok", "zarrfuse(1)", "_zarrfuse_completion"),
        *("cells.zarr", "cells.ome.tiff", "0.tiff", "cells.zarr", "up"),
    ]
    root.run("apt-get purge -y -qq zarrfuse; apt-get autoremove -y -qq --purge")
    assert root.names() ^ before == set()


def test_lintian_has_nothing_to_say_of_the_package(package: Path) -> None:
    done = subprocess.run(
        ["lintian", "--fail-on", "error,warning", "--allow-root", package],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


USE = """
zarrfuse doctor | grep -v ^ok | grep . || echo ok
man -w zarrfuse mount.zarrfuse >/dev/null
man zarrfuse | grep -o -m1 '^ZARRFUSE(1)' | tr A-Z a-z
bash -c '. /usr/share/bash-completion/completions/zarrfuse; complete -p zarrfuse' | \\
    grep -o _zarrfuse_completion
cd /tmp
zarrfuse demo >/dev/null
ls zarrfuse-demo/mnt | grep zarr
zarrfuse unmount zarrfuse-demo/mnt
mount -t zarrfuse zarrfuse-demo/data zarrfuse-demo/mnt -o view=images
ls zarrfuse-demo/mnt/cells.zarr | grep tiff
umount zarrfuse-demo/mnt
echo "/tmp/zarrfuse-demo/data /tmp/zarrfuse-demo/mnt zarrfuse noauto,view=chunks 0 0" >/etc/fstab
mount zarrfuse-demo/mnt
ls zarrfuse-demo/mnt/cells.zarr/zstd/c/0 | head -n 1
umount zarrfuse-demo/mnt
: >/etc/fstab
cat >as_ann <<END
cd
mkdir mnt
zarrfuse mount /tmp/zarrfuse-demo/data mnt
ls mnt | grep zarr
zarrfuse status | grep -o -w up
zarrfuse unmount mnt
rm -r mnt
END
su ann -c 'sh -e as_ann'
rm -r zarrfuse-demo as_ann /home/ann/.local
"""
