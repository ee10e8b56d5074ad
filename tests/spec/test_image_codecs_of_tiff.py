"""The rules of the codecs of `imagecodecs.zarr`: kinds, configurations, sizes."""

import json

import pytest
from codec_documents import CRC32C, LITTLE, Json, parsed, sharding

from zarrfuse.spec.codecs import encoded_size, kind_of, problems, unknown
from zarrfuse.spec.data_types import parse_data_type


def image(name: str, **configuration: Json) -> dict[str, Json]:
    return {"name": f"imagecodecs_{name}", "configuration": configuration}


def found(codecs: list[Json], data_type: Json = "uint16") -> list[str]:
    return [str(p) for p in problems(parsed(codecs), parse_data_type(data_type), (1, 4, 6))]


def chain_of(codec: dict[str, Json]) -> list[Json]:
    """The shortest chain with a codec."""
    kind = kind_of(codec["name"])
    if kind == "array->bytes":
        return [codec]
    return [codec, LITTLE] if kind == "array->array" else [LITTLE, codec]


TILES: list[tuple[list[Json], str, int | None]] = [
    ([LITTLE, "imagecodecs_lzw"], "uint16", None),
    ([LITTLE, image("packbits")], "uint8", None),
    ([image("delta", axis=-1, dist=1), LITTLE], "uint16", 48),
    ([image("delta", axis=-2, dist=1), LITTLE, CRC32C], "float32", 100),
    ([image("floatpred", axis=2, dist=1)], "float64", 192),
    ([image("packints", bitspersample=12, runlen=6)], "uint16", 36),
    ([image("packints", bitspersample=12, runlen=3)], "uint16", 40),
    ([image("packints", bitspersample=1), CRC32C], "bool", 7),
    (["imagecodecs_jpeg2k"], "int16", None),
    ([image("jpeg", tables="/9g=", colorspace_data="RGB", level=None)], "uint8", None),
    ([image("jpegxl", distance=0, lossless=True)], "uint8", None),
    ([image("jpegxr", resolution=[96, 96], level=0.9)], "uint8", None),
    ([image("webp", hasalpha=True, level=90.5)], "uint8", None),
    ([image("lerc", compression="zstd", compressionargs={"level": 3})], "float32", None),
    ([image("png", filter="SUB", strategy=3)], "uint16", None),
    ([sharding([1, 4, 3], codecs=[image("delta"), LITTLE, image("lzw")])], "uint16", None),
]


@pytest.mark.parametrize(("codecs", "data_type", "size"), TILES, ids=lambda v: json.dumps(v)[:70])
def test_chains_of_tiff_are_known_and_right(
    codecs: list[Json], data_type: str, size: int | None
) -> None:
    assert found(codecs, data_type) == []
    assert list(unknown(parsed(codecs))) == []
    assert encoded_size(parsed(codecs), parse_data_type(data_type), (1, 4, 6)) == size


@pytest.mark.parametrize(
    ("codec", "data_type", "said"),
    [
        (image("lzw", level=1), "uint16", "'level': unknown member"),
        (image("delta", axis=3), "uint16", "axis: must be from -3 to 2, not 3"),
        (image("delta", dist=0), "uint16", "dist: must be at least 1, not 0"),
        (
            image("packints", bitspersample=17),
            "uint16",
            "bitspersample: must be from 1 to 16, not 17",
        ),
        (
            image("packints", runlen=5),
            "uint16",
            "runlen: must divide 24, the elements of a chunk, which 5 does not",
        ),
        (image("packints", bitorder="="), "uint16", "bitorder: must be '<' or '>', not '='"),
        (image("jpeg", tables="?"), "uint8", "tables: must be bytes as base64, not '?'"),
        (image("webp", hasalpha=1), "uint8", "hasalpha: must be true or false, not 1"),
        (image("jpegxl", distance="0"), "uint8", "distance: must be a number, not '0'"),
        (image("png", lossless=True), "uint8", "'lossless': unknown member"),
    ],
)
def test_a_wrong_member_is_named(codec: dict[str, Json], data_type: str, said: str) -> None:
    chain = chain_of(codec)
    assert found(chain, data_type) == [f"[{chain.index(codec)}]: configuration: {said}"]


@pytest.mark.parametrize(
    ("codec", "data_type", "said"),
    [
        (
            image("delta"),
            "bool",
            "takes numbers of the kinds int, uint, float, which bool is not",
        ),
        (image("floatpred"), "uint16", "takes numbers of the kinds float, which uint16 is not"),
        (
            image("packints", bitspersample=8),
            "float32",
            "packs unsigned integers and bool, which float32 is not",
        ),
    ],
)
def test_elements_that_a_codec_does_not_take_are_named(
    codec: dict[str, Json], data_type: str, said: str
) -> None:
    assert found(chain_of(codec), data_type) == [f"[0]: {said}"]


def test_the_codecs_of_images_make_bytes() -> None:
    assert found([LITTLE, image("jpeg")]) != []
    assert found([image("delta")]) == ["must include an array->bytes codec"]
