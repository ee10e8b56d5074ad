"""`zarrfuse doctor`: on a machine that has everything, and with one piece taken away at a time."""

import importlib.metadata
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from builders.mounts import zarrfuse
from builders.namespaces import in_namespace
from builders.other_users import OWNER, STRANGER
from environments import Environment

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
FOR_DEVELOPERS = {"all", "test", "bench", "docs", "lint", "scverse"}


def name_of(requirement: str) -> str:
    return re.split(r"[^\w.-]", requirement)[0]


REQUIRED = {name_of(each): each for each in PROJECT["dependencies"]}
EXTRAS = {
    name_of(each): extra
    for extra, requirements in PROJECT["optional-dependencies"].items()
    for each in requirements
    if extra not in FOR_DEVELOPERS and name_of(each) != "zarrfuse"
}
"""The package of each extra."""


def test_a_machine_that_has_everything_is_ok() -> None:
    done = zarrfuse("doctor")
    assert done.stderr == ""
    assert [line for line in done.stdout.splitlines() if not line.startswith("ok    ")] == []
    for words in ("kernel", "/dev/fuse", "fusermount3", "allow-other", "log of a daemon", "Python"):
        assert words in done.stdout
    for name in ("zarrfuse", *REQUIRED, *EXTRAS):
        assert f"ok    {name} {importlib.metadata.version(name)}\n" in done.stdout
    can, cannot = codecs_in(done.stdout)
    assert {"zstd", "imagecodecs_jpeg", "numcodecs.zlib"} <= can
    assert "zarrs.optional" in cannot


def codecs_in(said: str) -> tuple[set[str], set[str]]:
    """Those that can be decoded, and those that cannot."""
    can, cannot = re.findall(r"codecs that can(?: be decoded|not): (.*)", said)
    return set(can.split(", ")), set(cannot.split(", "))


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """One without extras, which take long to import."""
    return Environment(tmp_path_factory.mktemp("environment"), without=EXTRAS)


@pytest.fixture(scope="module")
def without_extras(environment: Environment) -> subprocess.CompletedProcess[str]:
    return environment.zarrfuse("doctor")


@pytest.mark.parametrize(("name", "extra"), EXTRAS.items(), ids=list(EXTRAS))
def test_a_missing_extra_is_named_and_no_failure(
    without_extras: subprocess.CompletedProcess[str], name: str, extra: str
) -> None:
    assert (without_extras.returncode, without_extras.stderr) == (0, "")
    line = f"ok    no {name}: pip install 'zarrfuse[{extra}]' installs it\n"
    assert line in without_extras.stdout


def test_without_imagecodecs_its_codecs_are_among_those_that_cannot_be_decoded(
    without_extras: subprocess.CompletedProcess[str],
) -> None:
    can, cannot = codecs_in(without_extras.stdout)
    assert {"imagecodecs_jpeg", "imagecodecs_lzw"} <= cannot
    assert {"zstd", "packbits"} <= can


def test_broken_extras_are_named_and_no_failure(environment: Environment) -> None:
    with environment.broken(*EXTRAS):
        done = environment.zarrfuse("doctor")
    assert (done.returncode, done.stderr) == (0, "")
    for name in EXTRAS:
        said = (
            f"look  {name} 1 cannot be imported (ImportError: libx.so: no such file): pip install "
        )
        assert f"{said}--force-reinstall --no-cache-dir '{name}>=" in done.stdout
    assert "imagecodecs_jpeg" in codecs_in(done.stdout)[1]


def test_without_typer_no_command_starts_and_says_so(environment: Environment) -> None:
    with environment.without("typer"):
        done = environment.zarrfuse("doctor")
    said = "zarrfuse: No module named 'typer': pip install --force-reinstall zarrfuse\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", said)


@pytest.mark.parametrize("name", sorted(REQUIRED.keys() - {"typer"}))
def test_a_missing_library_is_named_with_the_command_that_installs_it(
    environment: Environment, name: str
) -> None:
    with environment.without(name):
        done = environment.zarrfuse("doctor")
    assert (done.returncode, done.stderr) == (1, "")
    [line] = [line for line in done.stdout.splitlines() if f" {name} is missing" in line]
    assert line.startswith(f"fails {name} is missing: ")
    build = "install the packages fuse3 libfuse3-dev pkg-config gcc python3-dev, then "
    assert (build in line) == (name == "pyfuse3")  # the only one that has no wheels
    assert re.search(rf"pip install '{name}[<>=].*'$", line)
    others = [line for line in done.stdout.splitlines() if line.startswith("fails")]
    assert all(f"named '{name.replace('-', '_')}" in each for each in others if each != line)


@pytest.mark.parametrize(("name", "error"), [("zarr", "RuntimeError"), ("msgspec", "ImportError")])
def test_a_broken_library_is_named_with_what_it_says(
    environment: Environment, name: str, error: str
) -> None:
    with environment.without(name), environment.broken(name, error=error):
        done = environment.zarrfuse("doctor")
    assert (done.returncode, done.stderr) == (1, "")
    assert (
        f"fails {name} 1 cannot be imported ({error}: libx.so: no such file): "
        f"pip install --force-reinstall --no-cache-dir '{name}>=" in done.stdout
    )


def test_zarrfuse_that_is_not_installed_says_so(environment: Environment) -> None:
    with environment.without("zarrfuse"):
        done = environment.zarrfuse("doctor")
    assert (done.returncode, done.stderr) == (0, "")
    assert "look  zarrfuse is not installed" in done.stdout


@pytest.mark.parametrize("command", [("mount", "SOURCE", "MNT"), ("export", "SOURCE", "MNT")])
def test_a_command_that_cannot_import_a_library_sends_to_the_doctor(
    environment: Environment, tmp_path: Path, command: tuple[str, ...]
) -> None:
    name = {"mount": "pyfuse3", "export": "numpy"}[command[0]]
    with environment.without(name):
        done = environment.zarrfuse(*command)
    assert done.returncode == 1
    assert done.stderr == (
        f"zarrfuse: ModuleNotFoundError: No module named '{name}'; "
        "zarrfuse doctor says what to install\n"
    )


# A machine that has everything, whatever this one has.
MACHINE = """
mount -t tmpfs none /dev
mknod -m 666 /dev/null c 1 3
mknod -m 666 /dev/fuse c 10 229
: >/dev/log
echo user_allow_other >/dev/fuse.conf
mount --bind /dev/fuse.conf /etc/fuse.conf
mount -t tmpfs none "$(realpath /sbin)"
: >/sbin/mount.zarrfuse
"""


def by_user(number: int) -> tuple[str, ...]:
    """Run by another user, who may read this Python, and has no rights besides."""
    return (
        *("setpriv", f"--reuid={number}", f"--regid={number}", "--clear-groups"),
        *("--inh-caps=-all,+dac_read_search", "--ambient-caps=+dac_read_search"),
    )


USER = by_user(STRANGER)
LIBFUSE = "libfuse3 of pyfuse3"
WITHOUT_OPENAT2 = (
    sys.executable,
    "-c",
    """
import ctypes, os, struct, sys
program = struct.pack("HBBI" * 4,
    0x20, 0, 0, 0,             # load the number of the call
    0x15, 0, 1, 437,           # if it is openat2
    0x06, 0, 0, 0x50000 | 38,  # answer ENOSYS
    0x06, 0, 0, 0x7FFF0000)    # else allow it
kept = ctypes.create_string_buffer(program)
libc = ctypes.CDLL(None, use_errno=True)
class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]
found = Program(4, ctypes.addressof(kept))
if libc.prctl(22, 2, ctypes.byref(found), 0, 0):  # PR_SET_SECCOMP
    sys.exit(os.strerror(ctypes.get_errno()))
os.execv(sys.argv[1], sys.argv[1:])
""",
)
"""What a container does whose seccomp profile is older than the call."""
REPLACED = (
    'install -m {mode} {file} /dev/other; mount --bind /dev/other "$(command -v fusermount3)"'
)

PIECES: dict[str, tuple[str, tuple[str, ...], str]] = {
    "nothing": ("", USER, ""),
    "what root does without": ("chmod 600 /dev/fuse; : >/etc/fuse.conf", (), ""),
    "a new kernel": (
        "",
        (*USER, "setarch", "--uname-2.6"),
        r"look  kernel 2\.6.*: mounts are faster from 5\.12 on",
    ),
    "openat2": (
        "",
        WITHOUT_OPENAT2,
        r"look  openat2 is refused, and mounts are slower: allow it in the seccomp profile of .*",
    ),
    "/dev/fuse": (
        "rm /dev/fuse",
        USER,
        r"fails there is no /dev/fuse: load the kernel module \(modprobe fuse\), or .*--device /dev/fuse.*",
    ),
    "the mode of /dev/fuse": (
        "chmod 600 /dev/fuse",
        USER,
        r"fails no permission to use /dev/fuse: as root, chmod 666 /dev/fuse.*",
    ),
    "the capability to mount": (
        "",
        ("setpriv", "--bounding-set=-sys_admin"),
        r"fails the capability to mount, SYS_ADMIN, is withheld: .*\(--cap-add SYS_ADMIN\)",
    ),
    "new privileges": (
        "",
        (*USER, "--no-new-privs"),
        r"fails fusermount3 may not become root, .*: run .* without NoNewPrivileges=",
    ),
    "fusermount3": (
        "",
        (*USER, "env", "PATH=/nothing"),
        r"fails fusermount3 is missing: install the package fuse3",
    ),
    "fusermount3, by root": (
        "",
        ("env", "PATH=/nothing"),
        r"look  fusermount3 is missing: install the package fuse3",
    ),
    "setuid of fusermount3": (
        REPLACED.format(mode=755, file='"$(command -v fusermount3)"'),
        USER,
        r"fails /\S*/fusermount3 is not setuid root, .*: as root: chown .* chmod u\+s /\S*/fusermount3",
    ),
    "an intact fusermount3": (
        REPLACED.format(mode=4755, file="/dev/null"),
        USER,
        r"fails /\S*/fusermount3 does not run \(OSError: .*\): reinstall the package fuse3",
    ),
    "user_allow_other": (
        "echo '#user_allow_other' >/etc/fuse.conf",
        USER,
        r"look  --allow-other is for root alone: add the line user_allow_other to /etc/fuse\.conf, .*",
    ),
    "a log": (
        "rm /dev/log",
        (*USER, "env", "XDG_STATE_HOME=/proc/states"),
        r"look  a daemon has no log, since /proc/states/zarrfuse cannot .*: mount with --log-file FILE",
    ),
    "a home": (
        "rm /dev/log",
        (*by_user(OWNER), "env", "-u", "HOME", "-u", "XDG_STATE_HOME"),
        r"look  a daemon has no log, since /nonexistent/\S* cannot be written: mount with .*",
    ),
    "libfuse": (
        'mount --bind /dev/null "$LIBFUSE"',
        USER,
        r"fails pyfuse3 \S+ cannot be imported \(ImportError: \S*libfuse3\.so.*\): install the packages "
        r"fuse3 .*, then pip install --force-reinstall --no-cache-dir 'pyfuse3>=\S+'",
    ),
}
"""What is taken away: how, who asks the doctor, and what it says."""


@pytest.fixture(scope="module")
def libfuse() -> str:
    """The library that pyfuse3 loads."""
    import pyfuse3

    assert pyfuse3.__name__ in sys.modules
    found = re.search(r"/\S*libfuse3\.so\S*", Path("/proc/self/maps").read_text())
    assert found is not None
    return found[0]


@pytest.mark.parametrize(("script", "by", "said"), PIECES.values(), ids=list(PIECES))
def test_what_is_taken_from_a_machine_is_the_only_thing_that_is_named(
    environment: Environment, libfuse: str, script: str, by: tuple[str, ...], said: str
) -> None:
    command = (*by, environment.python, "-m", "zarrfuse", "doctor")
    done = in_namespace(f'{MACHINE}{script}\nexec "$@"', *command, variables={"LIBFUSE": libfuse})
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert ("ok    the log of a daemon goes to syslog (/dev/log)" in lines) == ("log" not in said)
    assert "ok    /sbin/mount.zarrfuse" in lines
    named = [line for line in lines if not line.startswith("ok    ")]
    assert len(named) == bool(said), named
    assert all(re.fullmatch(said, line) for line in named), named
    assert done.returncode == (1 if said.startswith("fails") else 0)


def test_what_no_mount_needs_is_told_of_too(environment: Environment) -> None:
    done = in_namespace(
        f'{MACHINE}rm /dev/log /sbin/mount.zarrfuse; exec "$@"',
        *(environment.python, "-m", "zarrfuse", "doctor"),
        variables={"XDG_STATE_HOME": "/var/states"},
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "ok    the log of a daemon goes to a file in /var/states/zarrfuse\n" in done.stdout
    link = f"ln -s {environment.python.with_name('mount.zarrfuse')} /sbin/mount.zarrfuse"
    helper = f"optional: /sbin/mount.zarrfuse, which only mount(8) and fstab need: as root: {link}"
    assert f"ok    {helper}\n" in done.stdout


@pytest.mark.parametrize(
    ("script", "by", "said"),
    [
        (PIECES[piece][0], PIECES[piece][1], said)
        for piece, said in (
            ("fusermount3", "zarrfuse: fusermount3 is missing: install the package fuse3"),
            ("setuid of fusermount3", "not permitted; zarrfuse doctor may know why"),
        )
    ],
    ids=["without fusermount3", "without setuid"],
)
def test_a_mount_that_is_refused_says_why_or_where_to_ask(
    environment: Environment, script: str, by: tuple[str, ...], said: str
) -> None:
    done = in_namespace(
        f'{MACHINE}{script}\nrm /dev/log; mkdir -m 777 /dev/source /dev/mnt\nexec "$@"',
        *(*by, environment.python, "-m", "zarrfuse", "mount", "/dev/source", "/dev/mnt"),
        variables={"XDG_STATE_HOME": "/proc/states"},
    )
    assert done.returncode == 1
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
