"""A mount that cannot be made or undone says why in one sentence, and leaves nothing behind."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from builders.documents import group
from builders.mounts import COMMAND, clear, options_of, wait_for, zarrfuse
from builders.namespaces import in_namespace
from builders.processes import processes_about

from zarrfuse.mounts import kernel_mounts

Mounted = Callable[..., Path]
Stored = Callable[..., Path]

REPOSITORY = Path(__file__).parents[2]
NOBODY = 65534


@pytest.fixture
def source(stored: Stored) -> Path:
    return stored({"zarr.json": group(), "file": b"x"})


def refusal(*arguments: object, code: int = 1) -> str:
    """The one sentence with which a command failed."""
    return sentence(zarrfuse(*arguments, check=False), code)


def sentence(done: subprocess.CompletedProcess[str], code: int = 1) -> str:
    assert done.returncode == code, (done.returncode, done.stderr)
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    said = done.stderr.strip()
    if code == 1:
        assert "\n" not in said, said
        assert said.startswith("zarrfuse: ")
    return said


def assert_not_mounted(mountpoint: Path) -> None:
    assert kernel_mounts.mount_at(str(mountpoint)) is None


either = pytest.mark.parametrize(
    "foreground", [(), ("--foreground",)], ids=["background", "foreground"]
)


class TestMount:
    @either
    def test_without_a_mountpoint(
        self, source: Path, tmp_path: Path, foreground: Sequence[str]
    ) -> None:
        said = refusal("mount", source, tmp_path / "nothing", *foreground)
        assert f"there is no mountpoint {tmp_path}/nothing" in said

    def test_on_a_mountpoint_that_is_a_file(self, source: Path, tmp_path: Path) -> None:
        (tmp_path / "file").write_bytes(b"")
        said = refusal("mount", source, tmp_path / "file")
        assert f"the mountpoint {tmp_path}/file is not a folder" in said

    def test_on_a_mountpoint_that_is_not_empty(self, source: Path, mountpoint: Path) -> None:
        (mountpoint / "precious").write_bytes(b"")
        said = refusal("mount", source, mountpoint)
        assert f"the mountpoint {mountpoint} is not empty" in said
        assert "-o nonempty" in said
        assert_not_mounted(mountpoint)

    def test_a_source_that_is_missing(self, tmp_path: Path, mountpoint: Path) -> None:
        said = refusal("mount", tmp_path / "nothing", mountpoint)
        assert f"the source {tmp_path}/nothing does not exist" in said

    @pytest.mark.parametrize("source", ["sftp://host/x.zarr", "user@host:/data"])
    def test_a_source_on_another_machine(self, source: str, mountpoint: Path) -> None:
        assert "zarrfuse mounts folders, zip files, and s3://" in refusal(
            "mount", source, mountpoint
        )

    def test_source_and_mountpoint_swapped(self, source: Path, mountpoint: Path) -> None:
        said = refusal("mount", mountpoint, source)
        assert f"{source} is not empty; did you mean it as the source?" in said

    @pytest.mark.parametrize(("nothing", "other"), [("SOURCE", 1), ("MOUNTPOINT", 0)])
    def test_an_empty_argument(self, source: Path, nothing: str, other: int) -> None:
        paths = [source, source]
        paths[1 - other] = ""  # type: ignore[call-overload]
        assert nothing in refusal("mount", *paths, code=2)

    def test_a_source_that_is_neither_folder_nor_zip(self, source: Path, mountpoint: Path) -> None:
        said = refusal("mount", source / "file", mountpoint)
        assert f"the source {source}/file is neither a folder nor a .zip or .ozx file" in said

    @pytest.mark.parametrize("ending", [".zip", ".ozx"])
    @pytest.mark.parametrize("data", [b"", b"no zip at all", b"PK\x05\x06"])
    def test_a_zip_that_is_broken(
        self, tmp_path: Path, mountpoint: Path, ending: str, data: bytes
    ) -> None:
        file = tmp_path / f"broken{ending}"
        file.write_bytes(data)
        assert str(file) in refusal("mount", file, mountpoint)
        assert_not_mounted(mountpoint)

    def test_a_source_inside_the_mountpoint(self, source: Path) -> None:
        (source / "inner").mkdir()
        said = refusal("mount", source / "inner", source)
        assert f"the source {source}/inner lies inside the mountpoint {source}" in said

    def test_a_mountpoint_inside_the_source(self, source: Path) -> None:
        (source / "inner").mkdir()
        said = refusal("mount", source, source / "inner")
        assert f"the mountpoint {source}/inner lies inside the source {source}" in said

    def test_a_source_on_itself(self, source: Path) -> None:
        assert "inside" in refusal("mount", source, source)
        assert_not_mounted(source)

    def test_a_mountpoint_inside_the_source_by_a_symlink(
        self, source: Path, tmp_path: Path
    ) -> None:
        (source / "inner").mkdir()
        (tmp_path / "elsewhere").symlink_to(source / "inner")
        assert "lies inside" in refusal("mount", source, tmp_path / "elsewhere")

    @either
    def test_with_an_option_that_nobody_knows(
        self, source: Path, mountpoint: Path, foreground: Sequence[str]
    ) -> None:
        said = refusal("mount", source, mountpoint, "-o", "frobnicate", *foreground, code=2)
        assert "frobnicate" in said
        assert_not_mounted(mountpoint)

    @either
    def test_with_a_log_file_that_cannot_be_written(
        self, source: Path, mountpoint: Path, foreground: Sequence[str]
    ) -> None:
        said = refusal("mount", source, mountpoint, "--log-file", "/proc/no/log", *foreground)
        assert "/proc/no/log" in said
        assert "Error" not in said
        assert_not_mounted(mountpoint)

    @either
    def test_with_a_log_file_that_is_a_folder(
        self, source: Path, mountpoint: Path, tmp_path: Path, foreground: Sequence[str]
    ) -> None:
        said = refusal("mount", source, mountpoint, "--log-file", tmp_path, *foreground)
        assert str(tmp_path) in said
        assert "Error" not in said
        assert_not_mounted(mountpoint)

    def test_what_is_mounted_already(self, source: Path, mounted: Mounted) -> None:
        mountpoint = mounted(source)
        said = refusal("mount", source, mountpoint)
        assert f"{mountpoint} is already mounted" in said
        assert (mountpoint / "file").read_bytes() == b"x"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--view", "plain-ish"), "plain-ish is not one of chunks, plain, images, raw, all"),
        (("--cache-ttl", "-1"), "-1 is neither a number of seconds nor inf"),
        (("--cache-ttl", "soon"), "soon is neither"),
        (("--cache-ttl", "nan"), "nan is neither"),
        (("--frobnicate",), "--frobnicate"),
    ],
)
def test_options_that_mean_nothing_are_refused(
    source: Path, mountpoint: Path, options: Sequence[str], words: str
) -> None:
    assert words in refusal("mount", source, mountpoint, *options, code=2)
    assert_not_mounted(mountpoint)


def test_a_folder_that_is_not_empty_is_mounted_on_when_asked_to(
    source: Path, mountpoint: Path
) -> None:
    (mountpoint / "hidden meanwhile").write_bytes(b"")
    zarrfuse("mount", source, mountpoint, "-o", "nonempty")
    assert sorted(os.listdir(mountpoint)) == ["file", "zarr.json"]
    zarrfuse("unmount", mountpoint)
    assert os.listdir(mountpoint) == ["hidden meanwhile"]


def test_options_of_the_kernel_are_passed_on(source: Path, mountpoint: Path) -> None:
    zarrfuse("mount", source, mountpoint, "-o", "noatime,nodev", "-o", "nosuid,noexec,,ro")
    assert {"noatime", "nodev", "nosuid", "noexec", "ro"} <= options_of(mountpoint)
    zarrfuse("unmount", mountpoint)


@pytest.mark.parametrize("seed", [1, 6])  # the order of a set of strings hangs on it
def test_no_option_makes_a_mount_writable_or_another_type(
    source: Path, mountpoint: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", str(seed))
    zarrfuse("mount", source, mountpoint, "-o", r"rw,fsname=a\,süß", command=COMMAND)
    assert "ro" in options_of(mountpoint)
    mounted = kernel_mounts.mount_at(str(mountpoint))
    assert mounted is not None
    assert (mounted.type, mounted.source) == ("fuse.zarrfuse", "a,süß")
    zarrfuse("unmount", mountpoint)


def test_what_is_not_mounted_cannot_be_unmounted(tmp_path: Path, mountpoint: Path) -> None:
    for path in (mountpoint, tmp_path / "nothing", tmp_path):
        assert refusal("unmount", path) == f"zarrfuse: {path} is not mounted"


def test_a_busy_mount_is_kept_and_detached_when_asked_to(source: Path, mounted: Mounted) -> None:
    mountpoint = mounted(source)
    with (mountpoint / "file").open("rb") as file:
        said = refusal("unmount", mountpoint)
        assert "busy" in said
        assert "--lazy" in said
        assert (mountpoint / "zarr.json").exists()
        zarrfuse("unmount", mountpoint, "--lazy")
        assert_not_mounted(mountpoint)
        assert file.read() == b"x"


# -- permissions and devices: in a mount namespace of its own, so that nobody else notices ----------


@pytest.fixture
def open_to_all() -> Iterator[Path]:
    """A folder that every user may read: pytest's are its owner's only."""
    with tempfile.TemporaryDirectory(prefix="zarrfuse-test-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "store").mkdir()
        (folder / "store/zarr.json").write_bytes(group())
        (folder / "mnt").mkdir()
        yield folder
        clear(folder)


def may_nobody_run_python() -> bool:
    done = subprocess.run(
        [*as_nobody(), sys.executable, "-c", "import zarrfuse.cli.app"],
        check=False,
        capture_output=True,
        cwd=REPOSITORY,
    )
    return done.returncode == 0


def as_nobody() -> list[str]:
    return ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]


needs_nobody = pytest.mark.skipif(
    os.geteuid() != 0 or not may_nobody_run_python(),
    reason="another user must be able to run this Python",
)


def test_without_dev_fuse_it_says_so(open_to_all: Path) -> None:
    done = in_namespace(
        'mount -t tmpfs none /dev; exec "$@"',
        *COMMAND,
        "mount",
        open_to_all / "store",
        open_to_all / "mnt",
    )
    assert sentence(done).startswith("zarrfuse: there is no /dev/fuse: ")


@needs_nobody
def test_without_permission_for_dev_fuse_it_says_so(open_to_all: Path) -> None:
    os.chown(open_to_all / "mnt", NOBODY, NOBODY)
    done = in_namespace(
        'mknod -m 600 "$0/fuse" c 10 229; mount --bind "$0/fuse" /dev/fuse; exec "$@"'.replace(
            "$0", str(open_to_all)
        ),
        *as_nobody(),
        *COMMAND,
        "mount",
        open_to_all / "store",
        open_to_all / "mnt",
    )
    assert "no permission to use /dev/fuse" in sentence(done)


FUSE_FOR_ALL = 'mknod -m 666 "$0/fuse" c 10 229; mount --bind "$0/fuse" /dev/fuse; exec "$@"'


@needs_nobody
def test_without_permission_for_the_mountpoint_it_says_so(open_to_all: Path) -> None:
    done = in_namespace(
        FUSE_FOR_ALL.replace("$0", str(open_to_all)),
        *as_nobody(),
        *COMMAND,
        "mount",
        open_to_all / "store",
        open_to_all / "mnt",
    )
    assert f"no permission to mount on {open_to_all}/mnt" in sentence(done)


@needs_nobody
def test_without_permission_for_the_source_it_says_so(open_to_all: Path) -> None:
    os.chown(open_to_all / "mnt", NOBODY, NOBODY)
    (open_to_all / "store").chmod(0o700)
    done = in_namespace(
        FUSE_FOR_ALL.replace("$0", str(open_to_all)),
        *as_nobody(),
        *COMMAND,
        "mount",
        open_to_all / "store",
        open_to_all / "mnt",
    )
    assert f"{open_to_all}/store may not be read" in sentence(done)


@needs_nobody
def test_allow_other_without_permission_is_refused_in_a_sentence(open_to_all: Path) -> None:
    os.chown(open_to_all / "mnt", NOBODY, NOBODY)
    done = in_namespace(
        'printf "" > "$0/fuse.conf"; mount --bind "$0/fuse.conf" /etc/fuse.conf; '.replace(
            "$0", str(open_to_all)
        )
        + FUSE_FOR_ALL.replace("$0", str(open_to_all)),
        *as_nobody(),
        *COMMAND,
        "mount",
        open_to_all / "store",
        open_to_all / "mnt",
        "--allow-other",
    )
    said = sentence(done)
    assert "allow_other" in said


@needs_nobody
def test_another_user_may_mount_read_and_unmount(open_to_all: Path) -> None:
    os.chown(open_to_all / "mnt", NOBODY, NOBODY)
    done = in_namespace(
        f"""
        mknod -m 666 {open_to_all}/fuse c 10 229
        mount --bind {open_to_all}/fuse /dev/fuse
        run="{" ".join(as_nobody())}"
        command="{" ".join(COMMAND)}"
        $run $command mount {open_to_all}/store {open_to_all}/mnt
        $run ls {open_to_all}/mnt
        $run cat {open_to_all}/mnt/zarr.json
        $run $command unmount {open_to_all}/mnt
        """
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split("\n", 1) == ["zarr.json", group().decode()]


def test_no_daemon_outlives_a_refusal(source: Path, mountpoint: Path) -> None:
    refusal("mount", source, mountpoint, "-o", "frobnicate", code=2)
    wait_for(lambda: not processes_about(mountpoint))


SILENT = (
    "import errno; from zarrfuse.cli import app; from zarrfuse.mounts import kernel_mounts;"
    " kernel_mounts.answer_of = lambda path: {}; app.main()"
)


@either
def test_a_mount_that_does_not_answer_is_undone_and_said_in_a_sentence(
    source: Path, mountpoint: Path, foreground: Sequence[str]
) -> None:
    script = SILENT.format("errno.EIO")
    command = [sys.executable, "-c", script, "mount", str(source), str(mountpoint), *foreground]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=30)
    assert "does not answer" in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1].startswith("zarrfuse: ")
    assert done.returncode == 1
    assert_not_mounted(mountpoint)


def test_names_that_are_no_text_are_logged_and_told(tmp_path: Path, stored: Stored) -> None:
    odd = os.fsdecode(b"\xff\xfe")
    source = stored({f"{odd}/zarr.json": b"{"})
    mountpoint = tmp_path / f"mnt{odd}"
    mountpoint.mkdir()
    log = tmp_path / "log"
    zarrfuse("mount", source, mountpoint, "--log-file", log)
    try:
        assert os.listdir(mountpoint / odd) == ["zarr.json"]
        assert r"\udcff\udcfe/zarr.json" in log.read_text()
    finally:
        clear(mountpoint)
    said = refusal("mount", source, mountpoint, "--log-file", tmp_path / odd / "no-folder")
    assert "log" in said
    assert "cannot be written" in said
