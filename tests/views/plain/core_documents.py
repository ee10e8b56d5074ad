"""What the tests of the `plain` view share: its documents are core Zarr v3."""

import json
from functools import partial

from builders.documents import default_keys
from builders.views import tree_of, view_of

from zarrfuse.views.base import Folder

view = partial(view_of, "plain")


def others(root: Folder) -> dict[str, bytes | None]:
    """Every path but the `zarr.json`, which must be readable as plain ones."""
    shown = tree_of(root)
    for path in [path for path in shown if path.rpartition("/")[2] == "zarr.json"]:
        document = json.loads(shown.pop(path) or b"")
        assert document["zarr_format"] == 3
        if document["node_type"] == "array":
            assert document["chunk_key_encoding"] == default_keys()
            assert document["storage_transformers"] == []
        assert "extensions" not in document
    return shown
