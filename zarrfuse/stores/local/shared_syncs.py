"""Shares one sync of a folder between all threads that wait for one.

Used by `writing`: chunks that are stored at the same time have names in the same folders, and a sync takes
as long as storing a small file.
"""

import threading
from collections.abc import Callable


class _Folder:
    """The syncs of one folder, counted from 1. `users`: how many threads wait for one."""

    def __init__(self) -> None:
        self.begun = 0
        self.ended = 0
        self.users = 0
        self.errors: dict[int, Exception] = {}


class SharedSyncs:
    """Syncs folders by `sync(key)`. For any thread."""

    def __init__(self, sync: Callable[[str], None]) -> None:
        self._sync = sync
        self._folders: dict[str, _Folder] = {}
        self._changed = threading.Condition()

    def wait(self, key: str) -> None:
        """Return when a sync of the folder that began after this call has ended. Raises what it raised."""
        with self._changed:
            folder = self._folders.setdefault(key, _Folder())
            folder.users += 1
            wanted = folder.begun + 1
            while folder.ended < folder.begun and folder.ended < wanted:
                self._changed.wait()
            is_mine = folder.begun < wanted
            folder.begun += is_mine
        try:
            if is_mine:
                self._sync(key)
        except Exception as error:
            folder.errors[wanted] = error
        finally:
            with self._changed:
                folder.ended += is_mine
                folder.users -= 1
                if not folder.users:
                    del self._folders[key]
                self._changed.notify_all()
        if wanted in folder.errors:
            raise folder.errors[wanted]
