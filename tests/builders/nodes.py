"""Nodes parsed from documents, and why a document is refused."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from builders.documents import document
from zarrfuse.spec.node import ArrayNode
from zarrfuse.spec.node_v2 import parse_v2_array
from zarrfuse.spec.node_v3 import NodeError, parse_v3


def parsed(members: Mapping[str, Any]) -> ArrayNode:
    """The array that a document of these members describes."""
    node = parse_v3(json.dumps(members).encode())
    assert isinstance(node, ArrayNode)
    return node


def array_of(*shape: int, **members: Any) -> ArrayNode:
    """An array of this shape without dimension names, and with other members."""
    described = document(shape, [1] * len(shape), data_type="uint16")
    del described["dimension_names"]
    return parsed(described | members)


def v2_array_of(*shape: int, attributes: bytes | None = None, **members: Any) -> ArrayNode:
    """An array of Zarr v2 of this shape, with other members, and a `.zattrs`."""
    described = {
        **{"zarr_format": 2, "shape": shape, "chunks": [1] * len(shape), "dtype": "<u2"},
        **{"compressor": None, "fill_value": 0, "order": "C", "filters": None},
        **members,
    }
    return parse_v2_array(json.dumps(described).encode(), attributes)


def refusal_of(text: bytes) -> str:
    """Why a `zarr.json` is refused."""
    with pytest.raises(NodeError) as refused:
        parse_v3(text)
    return str(refused.value)
