"""The owner and mode that the kernel is told, and checks, in place of the stored ones.

Owns what `--uid`, `--gid`, `--umask`, `--fmask` and `--dmask` mean: what is shown, and which changes are
stored. Used by `replies` and `operations`. It must not know pyfuse3.

A file that is shown to another user than it belongs to must not become a program with the rights of its
owner. So setuid and setgid of files are neither shown nor stored as soon as one of the options is given.
"""

from stat import S_ISGID, S_ISUID

from zarrfuse.config import ShownAccess
from zarrfuse.errors import NotPermitted
from zarrfuse.stores.access import Access, Change
from zarrfuse.stores.base import Entry, Kind

SET_ID = S_ISUID | S_ISGID
_ALL = 0o777


class Shown:
    """`asked`: the options. `is_stored`: whether none is given; `file_bits`: those a new file can have."""

    def __init__(self, asked: ShownAccess | None = None) -> None:
        asked = asked or ShownAccess()
        self._uid, self._gid = asked.uid, asked.gid
        self._masks = {Kind.FILE: asked.file_mask, Kind.FOLDER: asked.folder_mask}
        self.is_stored = asked == ShownAccess()
        self.file_bits = 0o7777 if self.is_stored else 0o7777 & ~SET_ID

    def of(self, access: Access, kind: Kind) -> Access:
        """The shown owner and mode of what has `access`."""
        if self.is_stored:
            return access
        mask = self._masks.get(kind)
        mode = access.mode if mask is None else _ALL & ~mask
        return Access(
            mode & ~SET_ID if kind is Kind.FILE else mode,
            access.uid if self._uid is None else self._uid,
            access.gid if self._gid is None else self._gid,
        )

    def stored(self, change: Change, entry: Entry) -> Change:
        """What of a change is stored: nothing that an option decides, as on vfat.

        A mode is ignored, because programs that copy files set one. Raises `NotPermitted` for another owner
        or group than the option says, and for setuid and setgid of a file.
        """
        if self.is_stored:
            return change
        if change.mode is not None and change.mode & SET_ID and entry.kind is Kind.FILE:
            raise NotPermitted(
                f"{entry.name} can't be setuid or setgid: the mount shows other owners or modes"
            )
        for asked, number, option in (
            (change.uid, self._uid, "uid"),
            (change.gid, self._gid, "gid"),
        ):
            if None not in (asked, number) and asked != number:
                raise NotPermitted(
                    f"{entry.name} can't be given away: the mount has --{option} {number}"
                )
        return change._replace(
            mode=change.mode if self._masks.get(entry.kind) is None else None,
            uid=change.uid if self._uid is None else None,
            gid=change.gid if self._gid is None else None,
        )
