"""A chunk of fill values only is deleted rather than stored, where the array asks for it."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import zarr
from builders.documents import array, concat_parts
from builders.view_writing import create, link, put, rename
from builders.views import content_of, is_there
from writable_chunks import opened
from zarr.core.buffer import Buffer
from zarr.storage import MemoryStore

from zarrfuse.decoding.fill_values import is_fill
from zarrfuse.errors import Exists
from zarrfuse.stores.base import OWN_NAME
from zarrfuse.stores.local.writing import WritableLocalStore

SKIP = ["example.skip_empty_chunks"]
EMPTY: list[tuple[str, Any, Any]] = [
    ("uint8", 0, 1),
    ("int16", -7, 0),
    ("float32", math.nan, 0.0),
    ("float64", 2.5, math.nan),
]


def encoded(
    dtype: str, fill_value: Any, value: Any, transformers: Sequence[Any]
) -> dict[str, bytes]:
    """A document and a chunk compressed with zstd, as zarr-python writes them."""
    kept: dict[str, Buffer] = {}
    made = zarr.create_array(
        MemoryStore(kept),
        shape=(8,),
        chunks=(4,),
        dtype=dtype,
        fill_value=fill_value,
        config={"write_empty_chunks": True},
    )
    made[:4] = value
    document = json.loads(kept["zarr.json"].to_bytes())
    document |= {"storage_transformers": list(transformers), "extensions": SKIP}
    return {"zarr.json": json.dumps(document).encode(), "chunk": kept["c/0"].to_bytes()}


@pytest.mark.parametrize("transformers", [[], [concat_parts(("/head", 4), "/rest")]])
def test_deleting_an_empty_chunk_is_synced_as_storing_it_is(
    tmp_path: Path, transformers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = encoded("uint8", 0, 1, transformers)
    empty = encoded("uint8", 0, 0, transformers)["chunk"]
    seen: list[str] = []
    with opened(tmp_path / "store", {"zarr.json": full["zarr.json"]}, is_fill) as root:
        put(root, "c/0", full["chunk"])
        sync_folder = WritableLocalStore.sync_folder

        def noted(store: WritableLocalStore, key: str) -> None:
            sync_folder(store, key)
            if not (tmp_path / "store/c/0").exists():
                seen.append(key)

        monkeypatch.setattr(WritableLocalStore, "sync_folder", noted)
        put(root, "c/0", empty, sync=True)
    assert [key for key in seen if not key.startswith(OWN_NAME)][-1] == "c"


@pytest.mark.parametrize("transformers", [[], [concat_parts((".head", 4), "")]])
@pytest.mark.parametrize(("dtype", "fill_value", "other"), EMPTY)
def test_a_chunk_of_fill_values_is_deleted_rather_than_stored(
    view: Any, stored: Any, dtype: str, fill_value: Any, other: Any, transformers: Any
) -> None:
    full = encoded(dtype, fill_value, other, transformers)
    empty = encoded(dtype, fill_value, fill_value, transformers)["chunk"]
    root = view({"zarr.json": full["zarr.json"]}, is_fill)
    put(root, "c/0", empty)
    assert stored() == {}
    put(root, "c/0", full["chunk"])
    assert content_of(root, "c/0") == full["chunk"]
    writer = create(root, "c/0")
    writer.write(empty, 0)
    assert writer.store()
    assert not is_there(root, "c/0")
    writer.truncate(0)
    writer.write(full["chunk"], 0)
    assert writer.store()
    writer.close()
    assert content_of(root, "c/0") == full["chunk"]
    put(root, "tmp", empty)
    with pytest.raises(Exists):
        link(root, "tmp", "c/0")
    assert not rename(root, "tmp", "c/0")
    assert stored() == {}
    put(root, "tmp", empty)
    link(root, "tmp", "c/1")
    assert stored() == {"tmp": empty}


def test_what_cannot_be_decoded_is_stored_as_it_is(view: Any, stored: Any) -> None:
    root = view({"zarr.json": encoded("uint8", 0, 0, [])["zarr.json"]}, is_fill)
    put(root, "c/0", b"no zstd")
    assert stored() == {"c/0": b"no zstd"}


def test_other_arrays_keep_their_empty_chunks(view: Any, stored: Any) -> None:
    root = view({"zarr.json": array()}, is_fill)
    put(root, "c/0/0", bytes(4))
    assert stored() == {"c/0/0": bytes(4)}
