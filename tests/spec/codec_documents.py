"""Codecs as documents name and configure them."""

import copy
from typing import Any

from zarrfuse.spec.names import Extension, parse_extension

Json = Any
LITTLE = {"name": "bytes", "configuration": {"endian": "little"}}
CRC32C = {"name": "crc32c"}
GZIP = {"name": "gzip", "configuration": {"level": 6}}


def transpose(*order: Any) -> dict[str, Json]:
    return {"name": "transpose", "configuration": {"order": list(order)}}


def packbits(**configuration: Any) -> dict[str, Json]:
    return {"name": "packbits", "configuration": configuration}


def sharding(chunk_shape: list[Any], **configuration: Any) -> dict[str, Json]:
    defaults = {"codecs": [LITTLE], "index_codecs": [LITTLE, CRC32C], "index_location": "end"}
    return {
        "name": "sharding_indexed",
        "configuration": {"chunk_shape": chunk_shape, **defaults, **configuration},
    }


def without(codec: dict[str, Json], member: str) -> dict[str, Json]:
    codec = copy.deepcopy(codec)
    del codec["configuration"][member]
    return codec


def parsed(codecs: list[Json]) -> list[Extension]:
    return [parse_extension(codec, "codecs") for codec in codecs]
