"""Deletes files that were moved into a dataset, once it is complete.

Owns the list of them, with which the next run goes on if this one is killed. Used by `run` and `update`.
"""

import json
import os
from collections.abc import Mapping

from zarrfuse.errors import NotFound
from zarrfuse.indexing.files import Files, FoundFile
from zarrfuse.indexing.target import OWN, Target, TargetError
from zarrfuse.stores.opening import is_url

_LIST = f"{OWN}.moves"


def delete_moved(
    files: Files, target: Target, moved: Mapping[str, str], adopted: Mapping[str, FoundFile]
) -> None:
    """Delete files.

    `moved`: the key of the chunk for each path. `adopted`: those that this run has stored; others are
    compared with what is stored. Raises `TargetError`.
    """
    target.put(_LIST, json.dumps(list(moved.items())).encode())
    for path, key in moved.items():
        file = adopted.get(path)
        if file is None:
            _delete_if_stored(files, target, path, key)
        elif files.is_still(file):
            _delete(files, target, path)
        else:
            raise TargetError(f"{path} was changed meanwhile: run it again")
    target.remove(_LIST)


def go_on(files: Files, target: Target) -> None:
    """Delete what an earlier run was killed before deleting."""
    if target.get(_LIST) is None:
        return
    with target.locked():
        for path, key in json.loads(target.get(_LIST) or b"[]"):
            if _exists(files, path):
                _delete_if_stored(files, target, path, key)
        target.remove(_LIST)


def _delete_if_stored(files: Files, target: Target, path: str, key: str) -> None:
    if not target.has_bytes_of(files, path, key):
        raise TargetError(f"{path} is not what is stored as {key}, and was not deleted")
    _delete(files, target, path)


def _delete(files: Files, target: Target, path: str) -> None:
    try:
        target.delete_source(files, path)
    except OSError as error:
        raise TargetError(
            f"the dataset is complete, but {path} cannot be deleted: {error.strerror}"
        ) from error


def _exists(files: Files, path: str) -> bool:
    if not is_url(files.address):
        return os.path.lexists(os.path.join(files.address, path))
    try:
        files.store.stat(path)
    except NotFound:
        return False
    return True
