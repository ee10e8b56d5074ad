"""Chunks that are not stored, also inside of shards, are the fill value behind every codec."""

from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from builders.array_layouts import Layout, chunk_boxes, chunk_file, unlike_values
from builders.images_view import ALL, assert_npy, assert_tiff, images, rendering
from builders.views import content_of
from zarr.codecs import BytesCodec, ShardingCodec, ZstdCodec

from zarrfuse.stores.local.store import LocalStore

pytestmark = pytest.mark.filterwarnings("ignore::zarr.errors.ZarrUserWarning")

FILL = 77
CODED = [
    name
    for name, layout in ALL.items()
    if name.startswith(("codecs/", "shards/", "formats/", "keys/"))
    and layout.shape
    and name != "formats/null"
]


def assert_shown(folder: Path, layout: Layout, values: Any) -> None:
    """Whole files and each chunk hold `values`."""
    store = LocalStore(str(folder))
    root = images(store)
    array = zarr.open_array(folder, path=layout.name)
    np.testing.assert_array_equal(np.asarray(array[...]), values)  # what was left out is left out
    assert_npy(content_of(root, rendering(layout.name, "npy")), values)
    assert_tiff(content_of(root, rendering(layout.name, "tiff")), values)
    for coords, box in chunk_boxes(array):
        assert_tiff(content_of(root, f"{layout.name}/{chunk_file(coords)}"), values[box])
    store.close()


@pytest.mark.parametrize("name", CODED)
def test_chunks_that_are_not_stored_are_the_fill_value(tmp_path: Path, name: str) -> None:
    layout = ALL[name]
    layout = replace(layout, options={**layout.options, "fill_value": FILL}, holes=True)
    array = layout.write(tmp_path)
    values = unlike_values(layout.shape, layout.dtype, layout.name)
    for number, (_, box) in enumerate(chunk_boxes(array)):
        if not number % 2:
            values[box] = FILL
    assert_shown(tmp_path, layout, values)


PIXELS = [BytesCodec(), ZstdCodec()]
SHARDS: dict[str, dict[str, Any]] = {
    "end": {"shards": {"shape": (6, 9), "index_location": "end"}},
    "start": {"shards": {"shape": (6, 9), "index_location": "start"}},
    "raw": {"shards": (6, 9), "compressors": None},
    "in shards": {
        "chunks": (6, 9),
        "compressors": None,
        "serializer": ShardingCodec(
            chunk_shape=(2, 9), codecs=[ShardingCodec(chunk_shape=(2, 3), codecs=PIXELS)]
        ),
    },
}


@pytest.mark.parametrize("kind", SHARDS)
@pytest.mark.parametrize("every", [2, 3, 7])
def test_in_a_shard_that_is_partly_filled_the_rest_is_the_fill_value(
    tmp_path: Path, kind: str, every: int
) -> None:
    options = {"chunks": (2, 3), "fill_value": FILL, **SHARDS[kind]}
    chunks = options.pop("chunks")
    layout = Layout("a", "uint16", (13, 20), chunks, options)
    made = zarr.create_array(
        tmp_path, name="a", dtype="uint16", shape=layout.shape, chunks=chunks, **options
    )
    drawn = unlike_values(layout.shape, layout.dtype, kind)
    values = np.full(layout.shape, FILL, np.uint16)
    for number, (row, column) in enumerate(product(range(0, 13, 2), range(0, 20, 3))):
        if number % every == 1:
            box = slice(row, row + 2), slice(column, column + 3)
            made[box] = values[box] = drawn[box]
    assert_shown(tmp_path, layout, values)
