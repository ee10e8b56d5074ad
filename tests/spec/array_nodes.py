"""Arrays of any shape, as `zarr.json` describes them."""

import json
from typing import Any

from builders.documents import document

from zarrfuse.spec.node import ArrayNode
from zarrfuse.spec.node_v3 import parse_v3


def array(*shape: int, **members: Any) -> ArrayNode:
    described = document(shape, [1] * len(shape), data_type="uint16")
    del described["dimension_names"]
    node = parse_v3(json.dumps(described | members).encode())
    assert isinstance(node, ArrayNode)
    return node
