"""What the tests of writing to local stores share."""

from pathlib import Path

from builders.stores import put_bytes

from zarrfuse.stores.access import Change
from zarrfuse.stores.base import OWN_NAME

OUTSIDE = b"outside the store"


def write(store, key, data, **options):
    file = store.edit(key, **options)
    file.truncate(0)
    file.write(data, 0)
    file.close()


def below(folder: Path) -> set[str]:
    """Everything below a folder, but the folder of our own and what is in it."""
    found = {str(path.relative_to(folder)) for path in folder.rglob("*")}
    return {name for name in found if not name.startswith(OWN_NAME)}


CHANGES = {
    "edit": lambda store, key: store.edit(key, create=True).close(),
    "edit to read": lambda store, key: store.edit(key, write=False).close(),
    "edit exclusively": lambda store, key: store.edit(key, create=True, exclusive=True).close(),
    "put": lambda store, key: put_bytes(store, key, b"put"),
    "put new": lambda store, key: put_bytes(store, key, b"put", new=True),
    "remove": lambda store, key: store.remove(key),
    "rename from": lambda store, key: store.rename(key, "renamed"),
    "rename to": lambda store, key: store.rename("data/a", key),
    "rename to new": lambda store, key: store.rename("data/a", key, replace=False),
    "link from": lambda store, key: store.link(key, "linked"),
    "link to": lambda store, key: store.link("data/a", key),
    "symlink": lambda store, key: store.symlink(key, "a"),
    "make_folder": lambda store, key: store.make_folder(key),
    "remove_folder": lambda store, key: store.remove_folder(key),
    "set_mtime": lambda store, key: store.change(key, Change(mtime_ns=1)),
    "sync_folder": lambda store, key: store.sync_folder(key),
}
