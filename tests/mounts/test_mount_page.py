"""The commands, the lines of fstab and the file of configuration of `docs/mount.md`, tried by root.

They are run in a namespace of mounts, in which `/etc`, `/srv`, `/mnt` and `/usr/sbin` are its own.
"""

import shlex
import sys
from pathlib import Path

from builders.namespaces import in_namespace
from builders.pages import blocks

_BEGIN = """
PATH="$1:$PATH"
mount -t tmpfs tmpfs /media
for folder in etc usr/sbin; do
    own=/media/$folder
    mkdir -p $own/upper $own/work
    mount -t overlay overlay -o lowerdir=/$folder,upperdir=$own/upper,workdir=$own/work /$folder
done
mount -t tmpfs tmpfs /srv
mount -t tmpfs tmpfs /mnt
rm -f /etc/systemd/system/zarrfuse@.service
mkdir -p /srv/cells.zarr /mnt/cells /etc/zarrfuse
echo '{"zarr_format": 3, "node_type": "group"}' >/srv/cells.zarr/zarr.json
sudo() { "$@"; }
systemctl() {  # no systemd runs here: what it would start is tested in test_systemd.py
    [ "$1" = daemon-reload ] || command systemctl --root=/ enable "$3"
}
"""


def said(script: str) -> str:
    done = in_namespace(_BEGIN + script, Path(sys.executable).parent)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_commands_work() -> None:
    shown = said(
        "\n".join(block.text for block in blocks("docs/mount.md", "sh"))
        + "\nls -l /sbin/mount.zarrfuse /etc/systemd/system/*.wants/zarrfuse@cells.service"
    )
    assert "mount.zarrfuse" in shown
    assert "multi-user.target.wants/zarrfuse@cells.service" in shown


def test_the_lines_of_fstab_mount() -> None:
    [lines] = blocks("docs/mount.md", "text")
    folder, url = lines.text.splitlines()
    link = 'ln -s "$(command -v mount.zarrfuse)" /sbin/mount.zarrfuse'
    shown = said(
        f"{link}\necho {shlex.quote(folder)} >/etc/fstab\nmount -a\nls /mnt/cells\numount /mnt/cells\n"
        f"echo {shlex.quote(url)} >/etc/fstab\nfindmnt --verify 2>&1 || true"
    )
    assert "zarr.json" in shown
    assert "\n0 parse errors" in shown


def test_a_file_of_configuration_is_what_config_prints() -> None:
    [toml], [console] = blocks("docs/mount.md", "toml"), blocks("docs/mount.md", "console")
    command, *lines = console.text.removeprefix("$ ").splitlines()
    shown = said(f"cat >/etc/zarrfuse/cells.toml <<'END'\n{toml.text}END\n{command}\n").splitlines()
    at = [shown.index(line) for line in lines if line != "..."]
    assert at == sorted(at)
    assert len(at) == 3
