"""Scripts in a namespace of mounts of their own, in which they may change /etc, /dev and /usr/sbin."""

import os
import subprocess
from collections.abc import Mapping

import pytest

from builders.mounts import ENVIRONMENT

# The namespace has the mounts of other tests, too: their daemons would live as long as it does.
_WITHOUT_OTHERS = "umount -a -i -l -c -t fuse.zarrfuse || true\n"


def command_in_namespace(script: str, *arguments: object) -> list[str]:
    """The command of a script of sh, which ends at the first error."""
    if os.geteuid() or subprocess.run(["unshare", "-m", "true"], check=False).returncode:
        pytest.skip("only root may make a namespace of mounts")
    unshare = ("unshare", "-m", "--propagation", "private", "sh", "-ec")
    return [*unshare, _WITHOUT_OTHERS + script, "sh", *map(str, arguments)]


def in_namespace(
    script: str, *arguments: object, variables: Mapping[str, object] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a script; `variables`: of its environment, besides those of tests."""
    more = {name: str(value) for name, value in (variables or {}).items()}
    return subprocess.run(
        command_in_namespace(script, *arguments),
        capture_output=True,
        text=True,
        check=False,
        env={**ENVIRONMENT, **more},
        timeout=120,
    )
