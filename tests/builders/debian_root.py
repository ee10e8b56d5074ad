"""A bare Debian, as debootstrap makes it, in a folder: what a new user's machine has, and no more.

Packages come from where this machine has them. Scripts run in namespaces of mounts and processes, so that
nothing that they start or mount outlives them.
"""

import os
import shutil
import subprocess
from pathlib import Path

SUITE = "bookworm"
_CERTIFICATES = "/etc/ssl/certificates-of-the-machine.crt"
_VARIABLES = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "DEBIAN_FRONTEND": "noninteractive",
    **dict.fromkeys(("PIP_CERT", "SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS"), _CERTIFICATES),
}
_ENTER = """
mount --bind "$0" "$0"
mount -t proc proc "$0/proc"
mount --rbind /sys "$0/sys"
mount -t tmpfs tmpfs "$0/dev"
for name in null zero full random urandom tty fuse; do
	mknod -m 666 "$0/dev/$name" c $(stat -c '0x%t 0x%T' /dev/$name)
done
ln -s /proc/self/fd "$0/dev/fd"
mkdir -m 1777 "$0/dev/shm"
exec chroot "$0" sh -e /root/script
"""


class DebianRoot:
    """A root of Debian in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def make(self) -> None:
        """Install Debian there, and let it have its packages from where this machine has them."""
        command = ["debootstrap", "--variant=minbase", SUITE, self.folder, _mirror()]
        log = self.folder.with_suffix(".log")
        with log.open("wb") as output:
            done = subprocess.run(command, stdout=output, stderr=output, check=False, timeout=600)
        assert done.returncode == 0, log.read_text()[-2000:]
        apt = self.folder / "etc/apt"
        (apt / "sources.list").write_text("")  # that of the machine is below
        for path in ("/etc/apt/sources.list", *map(str, Path("/etc/apt/sources.list.d").iterdir())):
            if os.path.exists(path):
                shutil.copy(path, apt / Path(path).relative_to("/etc/apt"))
        for each in Path("/etc/apt/apt.conf.d").iterdir():
            if "Acquire" in each.read_text():
                shutil.copy(each, apt / "apt.conf.d")
        for name in ("/etc/resolv.conf", "/etc/hosts"):
            shutil.copy(name, self.folder / "etc")
        certificates = os.environ.get("SSL_CERT_FILE", "/etc/ssl/certs/ca-certificates.crt")
        (self.folder / "etc/ssl").mkdir(exist_ok=True)
        shutil.copy(certificates, self.folder / _CERTIFICATES[1:])

    def run(self, script: str, *, within_s: float = 900) -> str:
        """What a script of sh prints, run by root in it. Raises `AssertionError` if it fails."""
        (self.folder / "root/script").write_text(f"set -eu\n{script}")
        done = subprocess.run(
            [
                "unshare",
                "-mpf",
                "--propagation=private",
                "--kill-child",
                "sh",
                "-ec",
                _ENTER,
                self.folder,
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            env=_VARIABLES,
            timeout=within_s,
        )
        assert done.returncode == 0, done.stdout[-4000:]
        return done.stdout

    def names(self) -> set[str]:
        """Type, mode and path of each file of the system, but for logs, caches and homes."""
        left_out = (
            "proc",
            "sys",
            "dev",
            "root",
            "srv",
            "tmp",
            "var/cache",
            "var/lib/apt",
            "var/log",
        )
        found = set()
        for path, folders, files in os.walk(self.folder):
            here = os.path.relpath(path, self.folder)
            folders[:] = [
                name for name in folders if os.path.normpath(f"{here}/{name}") not in left_out
            ]
            for name in (*folders, *files):
                mode = os.lstat(os.path.join(path, name)).st_mode
                found.add(f"{mode:o} {os.path.normpath(f'{here}/{name}')}")
        return found


def _mirror() -> str:
    """Where this machine has the packages of Debian from, as apt says."""
    done = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"],
        capture_output=True,
        text=True,
        check=True,
    )
    found = [uri for uri in done.stdout.split() if "security" not in uri]
    return found[0]
