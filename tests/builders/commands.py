"""Commands of this machine that must succeed."""

import os
import subprocess


def run(*command: object, **variables: str) -> str:
    """What a command prints; `variables`: of its environment, besides those of this process."""
    done = subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **variables},
        timeout=100,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
