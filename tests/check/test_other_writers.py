"""What others write has nothing wrong with it: tensorstore, and the examples of `concat-parts`."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorstore
from builders import concat_parts_examples
from finding_lines import lines


def grid(*chunk_shape: int) -> dict[str, Any]:
    return {"name": "regular", "configuration": {"chunk_shape": list(chunk_shape)}}


SHARDS = {
    "name": "sharding_indexed",
    "configuration": {"chunk_shape": [4, 4], "codecs": ["bytes", {"name": "zstd"}, "crc32c"]},
}
TRANSPOSE = {"name": "transpose", "configuration": {"order": [1, 0]}}


@pytest.mark.parametrize(
    ("driver", "metadata"),
    [
        ("zarr3", {"data_type": "uint16", "chunk_grid": grid(8, 8), "codecs": [SHARDS]}),
        ("zarr3", {"data_type": "float32", "codecs": ["bytes", "gzip", "crc32c"]}),
        ("zarr3", {"data_type": "float64", "fill_value": "NaN"}),
        ("zarr3", {"data_type": "bfloat16", "dimension_names": ["y", None]}),
        ("zarr3", {"data_type": "uint8", "codecs": [TRANSPOSE, "bytes", "blosc"]}),
        ("zarr", {"dtype": "<u2", "chunks": [8, 8], "dimension_separator": "/"}),
        ("zarr", {"dtype": ">f4", "chunks": [8, 8], "compressor": None, "order": "F"}),
    ],
    ids=str,
)
def test_an_array_of_tensorstore(tmp_path: Path, driver: str, metadata: dict[str, Any]) -> None:
    store = {"driver": "file", "path": f"{tmp_path}/a/"}
    settings = {"shape": [30, 20], **metadata}
    spec = {"driver": driver, "kvstore": store, "metadata": settings}
    array = tensorstore.open(spec, create=True).result()
    array.write(np.arange(600).reshape(30, 20).astype(array.dtype.numpy_dtype)).result()
    assert lines(tmp_path) == []


def test_the_examples_of_concat_parts_completed(tmp_path: Path) -> None:
    concat_parts_examples.write_crc32c_example(tmp_path / "crc32c")
    concat_parts_examples.write_header_example(tmp_path / "packbits", codec="packbits")
    concat_parts_examples.write_header_example(tmp_path / "bytes", codec="bytes")
    assert lines(tmp_path) == []
