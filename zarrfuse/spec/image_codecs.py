"""The names of the codecs of `imagecodecs.zarr` that compressions of TIFF need, and their members.

Owns which members their configurations have, and of which type. Used by `known_codecs`, which judges them.
It must not know what a member means.
"""

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

MemberType: TypeAlias = Literal["integer", "number", "boolean", "string", "base64", "any"]
"""The JSON type of a member. `base64`: bytes as text. `any`: a name or its number, or numbers."""

_SHARED: Final[Mapping[str, MemberType]] = {"level": "integer", "numthreads": "integer"}

IMAGE_CODEC_MEMBERS: Final[Mapping[str, Mapping[str, MemberType]]] = {
    "imagecodecs_jpeg": {
        "level": "integer",
        "bitspersample": "integer",
        "tables": "base64",
        "header": "base64",
        "colorspace_data": "any",
        "colorspace_jpeg": "any",
        "subsampling": "any",
        "optimize": "boolean",
        "smoothing": "boolean",
        "lossless": "boolean",
        "predictor": "integer",
        "fancyupsampling": "boolean",
    },
    "imagecodecs_jpeg2k": {
        **_SHARED,
        "codecformat": "any",
        "colorspace": "any",
        "planar": "boolean",
        "tile": "any",
        "bitspersample": "integer",
        "resolutions": "integer",
        "reversible": "boolean",
        "mct": "boolean",
        "skipres": "integer",
        "verbose": "integer",
    },
    "imagecodecs_jpegxl": {
        **_SHARED,
        "effort": "integer",
        "distance": "number",
        "lossless": "boolean",
        "decodingspeed": "integer",
        "photometric": "any",
        "bitspersample": "integer",
        "planar": "boolean",
        "primaries": "any",
        "transfer": "any",
        "perceptualheuristics": "boolean",
        "usecontainer": "boolean",
        "index": "integer",
        "keeporientation": "boolean",
    },
    "imagecodecs_jpegxr": {
        "level": "number",
        "photometric": "any",
        "hasalpha": "boolean",
        "resolution": "any",
        "fp2int": "boolean",
    },
    "imagecodecs_webp": {
        **_SHARED,
        "level": "number",
        "lossless": "boolean",
        "method": "integer",
        "index": "integer",
        "hasalpha": "boolean",
        "delay": "integer",
    },
    "imagecodecs_lerc": {
        "level": "number",
        "version": "integer",
        "planar": "boolean",
        "compression": "string",
        "compressionargs": "any",
    },
    "imagecodecs_png": {
        "level": "integer",
        "strategy": "any",
        "filter": "any",
        "primaries": "any",
        "transfer": "any",
        "matrix": "any",
    },
}
"""The members of codecs that encode an array as an image file."""
