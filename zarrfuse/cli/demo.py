"""`zarrfuse demo`: writes the demo dataset (`demo_dataset`), mounts it, and prints a tour."""

import os
import shutil
import sys

from zarrfuse.cli.demo_dataset import write_demo
from zarrfuse.cli.saying import say
from zarrfuse.config import MountConfig
from zarrfuse.errors import MountError
from zarrfuse.mounts import daemon, kernel_mounts

_CHUNK = "cells.zarr/zstd/c/0/1.tiff"
_PLAIN_CHUNK = "cells.zarr/strips/c/0/1.tiff"


def run(folder: str) -> None:
    """Write `folder`/data, mount it on `folder`/mnt, and print a tour. Raises `MountError`."""
    folder = os.path.realpath(folder)
    source, mountpoint = os.path.join(folder, "data"), os.path.join(folder, "mnt")
    try:
        os.makedirs(folder, exist_ok=True)
        write_demo(source)
    except FileExistsError:
        raise MountError(f"{source} exists already and is not the demo dataset") from None
    except OSError as error:
        raise MountError(f"the demo cannot be written to {folder}: {error.strerror}") from None
    mounted = kernel_mounts.mount_at(mountpoint)
    if mounted is None or kernel_mounts.answer_of(mountpoint) != 0:
        if mounted is None:
            os.makedirs(mountpoint, exist_ok=True)
        try:
            daemon.mount(MountConfig(source=source, mountpoint=mountpoint))
        except MountError:
            say(f"the data is in {source}, but could not be mounted")
            raise
    _tour(source, mountpoint)


def _tour(source: str, mountpoint: str) -> None:
    import tifffile  # noqa: PLC0415  # heavy, and only needed here

    stored, shown = os.path.join(source, _CHUNK), os.path.join(mountpoint, _CHUNK)
    print(f"{source}\nis mounted on\n{mountpoint}\n")
    for title, path in (("stored in parts", stored), ("mounted", shown)):
        print(f"{title}: {os.path.dirname(_CHUNK)}")
        for entry in sorted(os.scandir(os.path.dirname(path)), key=lambda entry: entry.name):
            print(f"  {entry.stat().st_size:>9}  {entry.name}")
    with tifffile.TiffFile(shown) as tiff:
        page = tiff.pages.first
        compression = tifffile.COMPRESSION(page.compression).name
        print(f"\n{_CHUNK} is a TIFF: {page.shape} {page.dtype}, {compression}")
    print(
        f"""
open it      {os.path.join(mountpoint, _PLAIN_CHUNK)}   with Fiji, an image viewer, any TIFF reader
             {shown}   with any that knows zstd
look closer  {_command()} info {mountpoint}
unmount      {_command()} unmount {mountpoint}"""
    )


def _command() -> str:
    """The command with which this program is called."""
    found, running = shutil.which("zarrfuse"), os.path.abspath(sys.argv[0])
    return "zarrfuse" if found and os.path.samefile(found, running) else running
