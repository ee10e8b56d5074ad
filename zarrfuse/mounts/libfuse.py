"""Mounts by libfuse: which options it gets, and its own words if it fails. Used by `daemon`."""

import os
import tempfile

import pyfuse3

from zarrfuse.config import MountConfig, ShownAccess
from zarrfuse.errors import MountError
from zarrfuse.fuse.operations import Operations
from zarrfuse.stores.opening import printable_source

_OF_OTHERS = frozenset({"allow_other", "allow_root"})


def mount_by_libfuse(operations: Operations, config: MountConfig) -> None:
    """Call `pyfuse3.init`. If it fails, the output of libfuse is the reason in the error."""
    options = ["subtype=zarrfuse", f"fsname={printable_source(config.source)}"]
    options += filter(_is_for_libfuse, config.options)  # of two that contradict, the last counts
    if config.allow_other:
        options.append("allow_other")
    if not config.read_write:
        options.append("ro")
    is_shown_otherwise = config.shown_access != ShownAccess()
    if config.read_write or is_shown_otherwise or not _OF_OTHERS.isdisjoint(options):
        options.append("default_permissions")  # else the disk checks, which knows ACLs, too
    with tempfile.TemporaryFile() as said:
        stderr = os.dup(2)
        os.dup2(said.fileno(), 2)
        try:
            words = [_Word(option) for option in options]
            pyfuse3.init(operations, config.mountpoint, words)  # type: ignore[arg-type]  # in order
        except RuntimeError as error:
            said.seek(0)
            text = said.read().decode(errors="replace").strip().replace("\n", "; ")
            raise MountError(
                f"{config.mountpoint} cannot be mounted: {text or error}; zarrfuse doctor may know why"
            ) from None
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)


def _is_for_libfuse(option: str) -> bool:
    """Whether libfuse gets an option: not those of zarrfuse, nor what would make it less safe.

    mount(8) passes `rw`, and mount.fuse3(8) `dev` and `suid`, unless told otherwise. libfuse mounts with
    `nodev` and `nosuid`.
    """
    refused = ("nonempty", "rw", "defaults", "dev", "suid")
    return option not in refused and not option.startswith("subtype=")


class _Word(str):
    """An option as pyfuse3 takes it, which makes ASCII of it: names of files need not be ASCII."""

    def encode(self, encoding: str = "", errors: str = "") -> bytes:
        """The bytes for libfuse; a comma would end the option."""
        return os.fsencode(self.replace("\\", "\\\\").replace(",", "\\,"))
