"""Arrays of any shape, as `zarr.json` describes them."""

import json
from typing import Any

from zarrfuse.spec.node import ArrayNode, parse_v3


def array(*shape: int, **members: Any) -> ArrayNode:
    document = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": shape,
        "data_type": "uint16",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1] * len(shape)}},
        "chunk_key_encoding": "default",
        "fill_value": 0,
        "codecs": ["bytes"],
    }
    node = parse_v3(json.dumps(document | members).encode())
    assert isinstance(node, ArrayNode)
    return node
