"""The codecs `imagecodecs_*` inside zarr-python: found by name, written and read, wrong chunks refused."""

import json
import pickle
import subprocess
import sys
import warnings
from importlib.metadata import entry_points
from importlib.util import find_spec
from typing import Any

import imagecodecs
import numpy as np
import pytest
import zarr
from tiff_tiles import LZW, PACKBITS, decoded, image, pixels, plain, store_of
from zarr.registry import get_codec_class
from zarr.storage import MemoryStore

from zarrfuse.spec.image_codecs import IMAGE_CODEC_MEMBERS
from zarrfuse.spec.known_codecs import KNOWN
from zarrfuse.zarr_python import own_image_codecs

Json = Any
NAMES = [name for name in KNOWN if name.startswith("imagecodecs_")]
OWN = {name: getattr(own_image_codecs, name[12:].capitalize()) for name in NAMES}

needs_ours = pytest.mark.skipif(
    find_spec("imagecodecs.zarr") is not None, reason="imagecodecs has the codecs itself"
)


def written(codecs: list[Json], data: np.ndarray) -> MemoryStore:
    """An array of one chunk that zarr-python has encoded."""
    store = store_of(b"", codecs, data.dtype, data.shape)
    zarr.open_array(store, mode="r+")[...] = data
    return store


def test_every_name_is_an_entry_point() -> None:
    found = {point.name for point in entry_points(group="zarr.codecs")}
    assert set(NAMES) <= found
    assert len(NAMES) == 16


@pytest.mark.parametrize("name", NAMES)
def test_zarr_python_finds_one_class_without_a_warning(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = get_codec_class(name)
    assert found is OWN[name] or found.__module__ == "imagecodecs.zarr"


SZIP = image(
    "szip",
    options_mask=141,
    pixels_per_block=16,
    bits_per_pixel=16,
    pixels_per_scanline=48,
    header=True,
)
CHAINS: list[tuple[list[Json], str, int]] = [
    ([plain("<"), LZW], "uint16", 1),
    ([plain(">"), PACKBITS], "uint16", 3),
    ([image("delta", axis=-1, dist=1), plain(">"), LZW], "int32", 1),
    ([image("delta", axis=-2, dist=1), plain("<")], "float32", 3),
    ([image("floatpred", axis=-2, dist=1), LZW], "float64", 3),
    ([plain("<"), image("lzf")], "uint16", 1),
    ([plain("<"), image("lzf", header=False)], "uint16", 1),
    ([plain(">"), image("lz4h5", level=3, blocksize=100)], "uint16", 3),
    ([image("bitshuffle", blocksize=64)], "uint16", 1),
    ([image("bitshuffle"), LZW], "float64", 3),
    ([plain("<"), SZIP], "uint16", 1),
    ([image("packints", bitspersample=12, runlen=48)], "u1 as u2", 1),
    ([image("jpeg", lossless=True)], "uint8", 1),
    ([image("jpeg2k")], "uint16", 3),
    ([image("jpegxl", lossless=True)], "uint8", 3),
    ([image("jpegxr", level=1.0)], "uint8", 1),
    ([image("webp", lossless=True)], "uint8", 3),
    ([image("webp", lossless=True)], "uint8", 4),
    ([image("lerc", level=0, compression="zstd")], "float32", 1),
    ([image("png", level=3)], "uint16", 3),
]


@pytest.mark.parametrize(("codecs", "dtype", "samples"), CHAINS, ids=lambda v: json.dumps(v)[:60])
def test_what_is_encoded_is_decoded(codecs: list[Json], dtype: str, samples: int) -> None:
    data = pixels("uint8", samples).astype("u2") if " as " in dtype else pixels(dtype, samples)
    data = data[np.newaxis]
    store = written(codecs, data)
    assert len(store._store_dict["c/" + "/".join("0" * data.ndim)]) > 0
    assert np.array_equal(zarr.open_array(store, mode="r")[...], data)


def test_a_lossy_jpeg_takes_its_level() -> None:
    data = pixels("uint8", 3)
    sizes = [
        len(written([image("jpeg", level=level)], data)._store_dict["c/0/0/0"])
        for level in (20, 95)
    ]
    assert sizes[0] < sizes[1]


def test_inside_shards_tiles_are_decoded() -> None:
    data = pixels("uint16", 1)
    sharding = {
        "name": "sharding_indexed",
        "configuration": {
            "chunk_shape": [16, 16],
            "codecs": [image("delta"), plain(">"), LZW],
            "index_codecs": [plain("<"), {"name": "crc32c"}],
        },
    }
    array = zarr.open_array(written([sharding], data), mode="r")
    assert np.array_equal(array[10:20, 30:], data[10:20, 30:])


@pytest.mark.parametrize("codec", [LZW, PACKBITS])
def test_bytes_behind_those_of_a_chunk_are_dropped(codec: Json) -> None:
    encode = {"imagecodecs_lzw": "lzw_encode", "imagecodecs_packbits": "packbits_encode"}
    data = pixels("uint8", 1)
    encoded = getattr(imagecodecs, encode[codec["name"]])(data.tobytes() + b"padding")
    if find_spec("imagecodecs.zarr") is None:
        assert np.array_equal(decoded(encoded, [plain("<"), codec], "u1", data.shape), data)


@needs_ours
def test_more_bytes_than_a_chunk_has_are_not_encoded_as_they_would_be_dropped() -> None:
    with pytest.raises(ValueError, match="put it directly behind"):
        written([plain("<"), {"name": "crc32c"}, LZW], pixels("uint8", 1))


def test_a_tile_that_is_too_short_is_an_error() -> None:
    encoded = imagecodecs.lzw_encode(bytes(100))
    with pytest.raises(ValueError):
        decoded(encoded, [plain("<"), LZW], "u1", (16, 16))


@needs_ours
@pytest.mark.parametrize(
    ("shape", "dtype", "said"),
    [
        ((16, 16), "uint8", "buffer is smaller"),
        ((24, 96), "uint8", "an image is uint8 of the shape"),
        ((24, 384), "uint8", "an image is uint8 of the shape"),
        ((48, 48), "uint16", "an image is uint8 of the shape"),
        ((48, 48), "int8", "an image is uint8 of the shape"),
    ],
)
@pytest.mark.parametrize("name", IMAGE_CODEC_MEMBERS)
def test_an_image_of_another_shape_or_type_is_an_error(
    name: str, shape: tuple[int, ...], dtype: str, said: str
) -> None:
    data = pixels("uint8", 4 if name == "imagecodecs_webp" else 1)
    if data.ndim == 3:
        shape = (shape[0], shape[1], 4)
    functions = {"imagecodecs_jpeg": "jpeg8_encode"}
    encoded = getattr(imagecodecs, functions.get(name, f"{name[12:]}_encode"))(data)
    with pytest.raises(ValueError, match=rf"{name}: {said}"):
        decoded(bytes(encoded), [{"name": name}], dtype, shape)


@needs_ours
@pytest.mark.parametrize("name", [name for name in NAMES if KNOWN[name].size == "varies"])
def test_garbage_is_an_error_with_the_name_of_the_codec(name: str) -> None:
    codecs = [{"name": name}] if name in IMAGE_CODEC_MEMBERS else [plain("<"), {"name": name}]
    with pytest.raises(ValueError, match=name):
        decoded(bytes(range(1, 40)), codecs, "u1", (48, 48))


@needs_ours
@pytest.mark.parametrize(("bits", "value"), [(12, 4096), (4, 16)])
def test_an_integer_that_does_not_fit_its_bits_is_not_encoded(bits: int, value: int) -> None:
    data = np.full((4, 4), value, "u1" if bits < 8 else "u2")
    with pytest.raises(ValueError, match=f"{value} is more than {value - 1}"):
        written([image("packints", bitspersample=bits, runlen=4)], data)


@needs_ours
@pytest.mark.parametrize(
    ("codec", "said"),
    [
        (image("jpeg", tables="%"), "tables: must be bytes as base64"),
        (image("jpeg", quality=3), "'quality': unknown member"),
        (image("packbits", level=1), "unknown member"),
        (image("delta", axis=2), "axis: must be from -2 to 1"),
        (image("delta", dist=2), "dist: only 1 is supported"),
        (image("floatpred"), "takes numbers of the kinds float"),
        (image("packints", bitspersample=9), "bitspersample: must be from 1 to 8"),
    ],
)
def test_wrong_metadata_is_a_sentence(codec: Json, said: str) -> None:
    codecs = [codec] if codec["name"] not in ("imagecodecs_delta",) else [codec, plain("<")]
    codecs = [plain("<"), codec] if codec["name"] == "imagecodecs_packbits" else codecs
    with pytest.raises((ValueError, TypeError), match=said):
        decoded(b"", codecs, "u1", (4, 4))


@pytest.mark.parametrize("name", NAMES)
def test_a_codec_is_a_value(name: str) -> None:
    codec = OWN[name].from_dict({"name": name})
    assert codec.to_dict() == {"name": name}
    assert pickle.loads(pickle.dumps(codec)) == codec
    assert hash(codec) == hash(OWN[name]())


def test_tables_are_bytes_or_base64() -> None:
    codec = own_image_codecs.Jpeg(tables=b"\xff\xd8", level=90)
    document = {
        "name": "imagecodecs_jpeg",
        "configuration": {"tables": "/9g=", "level": 90},
    }
    assert codec.to_dict() == document
    assert own_image_codecs.Jpeg.from_dict(document) == codec


def test_without_imagecodecs_the_error_says_what_to_install() -> None:
    program = """if True:
        import sys
        sys.modules["imagecodecs"] = None
        import zarr, numpy
        codecs = [{"name": "imagecodecs_lzw"}]
        array = zarr.create_array({}, shape=(4,), dtype="u1", compressors=codecs)
        try:
            array[:] = 1
        except ValueError as error:
            print(error)
    """
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    said = "imagecodecs_lzw: imagecodecs is not installed; run pip install 'zarrfuse[codecs]'"
    assert done.stdout.strip() == said
