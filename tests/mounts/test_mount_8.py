"""mount(8), fstab and umount(8) mount and unmount, in a namespace of mounts with a /usr/sbin of its own."""

import shutil
import subprocess
from pathlib import Path

import pytest
from builders.documents import group
from builders.folders import write_keys
from builders.mounts import COMMAND
from builders.namespaces import in_namespace

BIN = Path(COMMAND[0]).parent
SBIN = Path("/usr/sbin")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with a, störe, a mountpoint, and the programs that mount(8) looks for in /usr/sbin."""
    write_keys(tmp_path / "a, störe", {"zarr.json": group(), "file": b"x"})
    (tmp_path / "mnt").mkdir()
    (tmp_path / "sbin").mkdir()
    for name in ("mount.zarrfuse", "zarrfuse"):  # mount.fuse(8) has a search path of its own
        (tmp_path / "sbin" / name).symlink_to(BIN / name)
    for name in ("mount.fuse", "mount.fuse3"):
        shutil.copy(SBIN / name, tmp_path / "sbin")
    return tmp_path


def run(place: Path, script: str) -> subprocess.CompletedProcess[str]:
    """Run a script of sh there, in which /usr/sbin has these programs alone."""
    begin = f"mount --bind '{place}/sbin' {SBIN}; cd '{place}'; trap 'umount -q mnt || true' EXIT\n"
    return in_namespace(begin + script)


def said(place: Path, script: str) -> str:
    done = run(place, script)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("type_", ["zarrfuse", "fuse.zarrfuse"])
def test_mount_mounts_and_umount_unmounts(place: Path, type_: str) -> None:
    lines = said(
        place,
        f"""mount -t {type_} 'a, störe' mnt -o view=raw,noatime,nofail,_netdev,x-gvfs-hide,comment=a
        ls mnt
        grep " $PWD/mnt " /proc/self/mountinfo | cut -d' ' -f6- | tr -s ' ' '\\n'
        umount mnt
        ls mnt
        """,
    ).splitlines()
    assert lines[:2] == ["file", "zarr.json"]
    assert "noatime" in lines[2]
    assert "ro" in lines[2].split(",")
    assert "fuse.zarrfuse" in lines
    assert f"{place}/a,\\040störe" in lines
    assert lines[-1] != "zarr.json"  # it was unmounted


def test_lines_of_fstab(place: Path) -> None:
    (place / "mnt2").mkdir()
    source = str(place / "a, störe").replace(" ", "\\040")
    (place / "fstab").write_text(
        f"{source} {place}/mnt zarrfuse view=raw,relatime,nofail,_netdev,x-systemd.automount 0 0\n"
        f"{source} {place}/mnt2 fuse.zarrfuse noauto,user,relatime,view=raw 0 0\n"
    )
    assert said(
        place,
        """mount -a -T fstab; mount -a -T fstab
        ls mnt; ls mnt2; echo
        mount -T fstab mnt2; ls mnt2
        umount mnt2; umount mnt
        """,
    ).split("\n") == ["file", "zarr.json", "", "file", "zarr.json", ""]


@pytest.mark.parametrize(
    ("command", "reason", "code"),
    [
        ("mount -t zarrfuse nowhere mnt", "nowhere does not exist", 32),
        ("mount -t zarrfuse 'a, störe' mnt -o veiw=raw", "did you mean view?", 1),
        ("mount -t zarrfuse 'a, störe' mnt -o max_read=4096", "max_read cannot be given", 1),
        ("mount -t zarrfuse 'a, störe' mnt -o view=none", "--view: none is not one of", 1),
        ("mount -t zarrfuse 'a, störe' mnt -o fsname", "fuse: unknown option(s): `-o fsname'", 32),
        ("mount -t fuse.zarrfuse nowhere mnt", "nowhere does not exist", 1),
        ("mount -t fuse.zarrfuse 'a, störe' mnt -o max_read=1", "max_read cannot be given", 2),
        ("/usr/sbin/mount.zarrfuse 'a, störe'", "SOURCE MOUNTPOINT", 1),
        ("/usr/sbin/mount.zarrfuse 'a, störe' mnt -q", "option -q not recognized", 1),
        ("/usr/sbin/mount.zarrfuse 'a, störe' mnt -N /proc/1/ns/mnt", "nsenter", 1),
    ],
)
def test_a_refusal_has_its_reason(place: Path, command: str, reason: str, code: int) -> None:
    done = run(place, f"trap - EXIT; exec {command}")
    assert reason in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.returncode == code


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_the_helper_tells_how_it_is_called(place: Path, option: str) -> None:
    told = said(place, f"/usr/sbin/mount.zarrfuse {option}")
    assert told.startswith("Usage: mount.zarrfuse SOURCE MOUNTPOINT")
    assert "zarrfuse mount --help" in told


def test_a_remount_is_refused_with_what_to_do(place: Path) -> None:
    done = run(place, "trap - EXIT; exec mount -t zarrfuse 'a, störe' mnt -o remount,rw")
    assert "unmount it, and mount it anew" in done.stderr
    assert done.returncode == 1


def test_a_sloppy_mount_drops_what_nobody_knows(place: Path) -> None:
    mounted = "/usr/sbin/mount.zarrfuse 'a, störe' mnt -sv -o frobnicate,view=raw,veiw=x"
    assert said(place, f"{mounted}; ls mnt; umount mnt").split() == ["file", "zarr.json"]
    assert said(place, "/usr/sbin/mount.zarrfuse 'a, störe' mnt -f; ls mnt") == ""
