"""Options of a mount from files and the environment, and `zarrfuse config`, which prints them."""

import json
import os
import subprocess
import tomllib
from pathlib import Path

import pytest
from builders.documents import group
from builders.folders import write_keys
from builders.mounts import COMMAND, ENVIRONMENT, clear
from builders.namespaces import in_namespace

from zarrfuse.mounts import kernel_mounts


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home whose folder of configurations is there."""
    (tmp_path / "home/.config/zarrfuse").mkdir(parents=True)
    return tmp_path / "home"


def written(home: Path, text: str, name: str = "cells") -> Path:
    path = home / f".config/zarrfuse/{name}.toml"
    path.write_text(text)
    return path


def run(home: Path, *arguments: object, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the command with a home and variables of its own."""
    environment = {**ENVIRONMENT, "HOME": str(home), **variables}
    environment.pop("XDG_CONFIG_HOME", None)
    return subprocess.run(
        [*map(str, (*COMMAND, *arguments))],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        timeout=60,
    )


def told(home: Path, *arguments: object, **variables: str) -> dict[str, dict[str, object]]:
    done = run(home, "config", *arguments, "--json", **variables)
    assert done.returncode == 0, done.stderr
    found: dict[str, dict[str, object]] = json.loads(done.stdout)
    return found


def refusal(home: Path, *arguments: object, code: int = 1, **variables: str) -> str:
    done = run(home, *arguments, **variables)
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr


def test_the_command_line_is_stronger_than_variables_and_these_than_files(home: Path) -> None:
    path = written(home, 'view = "raw"\ntimeout = 7\nxattrs = true\nformats = "npy"')
    found = told(
        home,
        "--config",
        "cells",
        "-o",
        "view=plain,nofail",
        ZARRFUSE_VIEW="images",
        ZARRFUSE_TIMEOUT="9",
        ZARRFUSE_XATTRS="no",
    )
    assert found["view"] == {"value": "plain", "origin": "command line"}
    assert found["timeout"] == {"value": "9", "origin": "ZARRFUSE_TIMEOUT"}
    assert found["xattrs"] == {"value": False, "origin": "ZARRFUSE_XATTRS"}
    assert found["formats"] == {"value": "npy", "origin": str(path)}
    assert found["read_write"] == {"value": False, "origin": "default"}


def test_the_file_of_the_user_is_stronger_than_that_of_the_system(home: Path) -> None:
    """In a namespace of mounts, so that /etc stays as it is."""
    system = home / "system"
    system.mkdir()
    (system / "cells.toml").write_text('view = "raw"\ntimeout = 7')
    own = written(home, 'view = "plain"')
    script = (
        "mount -t tmpfs none /etc && mkdir /etc/zarrfuse && mount --bind $1 /etc/zarrfuse && "
        "shift && exec $@"
    )
    done = in_namespace(
        script, system, *COMMAND, "config", "--config", "cells", "--json", variables={"HOME": home}
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["view"] == {"value": "plain", "origin": str(own)}
    assert found["timeout"] == {"value": "7", "origin": "/etc/zarrfuse/cells.toml"}


def test_what_config_prints_is_a_file_of_configuration(home: Path) -> None:
    path = written(home, 'view = "images"\ncache-ttl = inf\noption = ["noatime"]')
    printed = run(home, "config", "--config", "cells", "--read-write").stdout
    assert f"# {path}" in printed
    assert tomllib.loads(printed) == {
        "view": "images",
        "cache_ttl": "inf",
        "option": ["noatime"],
        "read_write": True,
    }
    written(home, printed, "again")
    found = told(home, "--config", "again")
    assert (found["view"]["value"], found["read_write"]["value"]) == ("images", True)


def test_secrets_are_not_printed(home: Path) -> None:
    written(home, 'option = ["aws_secret_access_key=s3cret,fsname=x"]')
    url = "https://user:s3cret@example.org/a.zarr?key=s3cret"
    headers = "A: s3cret\nB: s3cret, too"
    done = run(home, "config", url, "--config", "cells", ZARRFUSE_HEADER=headers)
    assert "s3cret" not in done.stdout + done.stderr
    assert 'source = "https://example.org/a.zarr"' in done.stdout
    assert "fsname=x" in done.stdout
    assert 'header = ["A: ***", "B: ***"]' in done.stdout
    assert "aws_secret_access_key=***" in done.stdout


def test_a_mount_of_a_file(home: Path, tmp_path: Path) -> None:
    write_keys(tmp_path / "store", {"zarr.json": group(), "file": b"x"})
    (home / "mnt").mkdir()
    written(home, f'source = "{tmp_path}/store"\nmountpoint = "~/mnt"\nview = "raw"')
    try:
        done = run(home, "mount", ZARRFUSE_CONFIG="cells")
        assert done.returncode == 0, done.stderr
        assert sorted(os.listdir(home / "mnt")) == ["file", "zarr.json"]
        assert run(home, "unmount", home / "mnt").returncode == 0
    finally:
        clear(home / "mnt")
    assert kernel_mounts.mount_at(str(home / "mnt")) is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('veiw = "raw"', "there is no option veiw; did you mean view?"),
        ("[mount]\n", "there is no option mount"),
        ("view = true", "view must be a text or a number, not True"),
        ('xattrs = "yes"', "xattrs must be true or false, not 'yes'"),
        ('header = "A: b"', "header must be a list of texts"),
        ("header = [1]", "header must be a list of texts"),
        ("view = ", "is no TOML"),
        ("\udcff", "is no TOML"),
    ],
)
def test_a_file_that_says_nothing_is_refused_by_name(home: Path, text: str, said: str) -> None:
    path = home / "a.toml"
    path.write_bytes(text.encode(errors="surrogateescape"))
    for command in ("config", "mount"):
        printed = refusal(home, command, "--config", path)
        assert printed.startswith(f"zarrfuse: {path}")
        assert said in printed
        assert printed.count("\n") == 1


def test_values_that_mean_nothing_are_refused_with_where_they_are(home: Path) -> None:
    path = written(home, 'view = "none"')
    said = refusal(home, "mount", "a", "b", "--config", "cells", code=2)
    assert f"none is not one of chunks, plain, images, raw, all ({path})" in said
    said = refusal(home, "mount", "a", "b", ZARRFUSE_TIMEOUT="soon", code=2)
    assert "soon is neither a number of seconds nor inf (ZARRFUSE_TIMEOUT)" in said
    assert "ZARRFUSE_XATTRS must be true or false" in refusal(home, "mount", ZARRFUSE_XATTRS="x")


def test_a_variable_that_means_nothing_is_refused_with_the_nearest(home: Path) -> None:
    for command in ("config", "mount"):
        said = refusal(home, command, "a", "b", ZARRFUSE_VEIW="raw")
        assert said == "zarrfuse: there is no variable ZARRFUSE_VEIW; did you mean ZARRFUSE_VIEW?\n"
    said = refusal(home, "config", ZARRFUSE_CONFG="cells")
    assert "did you mean ZARRFUSE_CONFIG?" in said
    assert "there is no variable ZARRFUSE_view" in refusal(home, "config", ZARRFUSE_view="raw")


def test_config_refuses_words_of_o_that_mean_nothing(home: Path) -> None:
    said = refusal(home, "config", "-o", "nosiud", code=2)
    assert "there is no option nosiud; did you mean nosuid?" in said
    written(home, 'option = ["max_read=1"]')
    said = refusal(home, "config", "--config", "cells", code=2)
    assert "max_read cannot be given: zarrfuse sets it itself" in said


def test_an_empty_variable_says_nothing(home: Path) -> None:
    assert told(home, ZARRFUSE_VIEW="", ZARRFUSE_CONFIG="")["view"]["origin"] == "default"


def test_what_is_missing_is_named(home: Path) -> None:
    said = refusal(home, "mount", "--config", "nowhere")
    assert "neither /etc/zarrfuse/nowhere.toml nor " in said
    assert f"{home}/.config/zarrfuse/nowhere.toml exists" in said
    assert "SOURCE: is missing" in refusal(home, "mount", code=2)
    assert "MOUNTPOINT: is missing" in refusal(home, "mount", "a", code=2)
    assert "a.toml: No such file" in refusal(home, "mount", "--config", home / "a.toml")


def test_a_file_that_others_could_have_written_is_not_trusted(home: Path) -> None:
    path = written(home, 'view = "raw"')
    refused = f"zarrfuse: {path} is not trusted, because"
    for what in (path, path.parent):
        mode = what.stat().st_mode
        what.chmod(mode | 0o002)
        said = refusal(home, "config", "--config", "cells")
        assert said == f"{refused} {what} can be written by others\n"
        what.chmod(mode)
        os.chown(what, 12345, -1)
        said = refusal(home, "mount", "--config", "cells")
        assert said == f"{refused} {what} belongs to another user\n"
        os.chown(what, os.geteuid(), -1)
    assert told(home, "--config", "cells")["view"]["value"] == "raw"
