"""Codecs of zarr-python that call imagecodecs, for where `imagecodecs.zarr` does not exist.

Names and configurations are those of `imagecodecs.zarr`; `image_codec_base` checks configurations. Used by
`image_codecs`. Wrong metadata, and chunks that cannot be decoded or are not of the array's shape and data
type, are a `ValueError`. Images are decoded into memory of the size of a chunk, so that the header of an
image never decides how much memory is taken.
"""

import base64
from collections.abc import Collection, Mapping
from math import prod
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from zarr.abc.codec import ArrayArrayCodec, ArrayBytesCodec, BytesBytesCodec
from zarr.core.array_spec import ArraySpec
from zarr.core.buffer import Buffer, NDBuffer

from zarrfuse.spec.image_codecs import packed_integer_bytes
from zarrfuse.zarr_python.image_codec_base import (
    Configured,
    Threaded,
    bytes_of,
    call_imagecodecs,
    dtype_of,
    nd_buffer_of,
)

# -- bytes->bytes


class _Compressor(Threaded, Configured, BytesBytesCodec):
    """Compressed bytes of whole chunks.

    Writers of TIFF pad what they compress, so decoded bytes behind those of a chunk are dropped. Hence it
    does not encode more bytes than a chunk has, such as those behind `crc32c`.
    """

    is_fixed_size = False

    functions: ClassVar[str]
    defaults: ClassVar[Mapping[str, Any]] = {}
    decoding: ClassVar[Collection[str]] = ()
    """The members that the function for decoding takes."""

    def _encode_sync(self, chunk_data: Buffer, chunk_spec: ArraySpec) -> Buffer | None:
        most = self._chunk_bytes(chunk_spec)
        if most is not None and len(chunk_data) > most:
            raise ValueError(
                f"{self.name}: encodes {len(chunk_data)} bytes of a chunk of {most}: put it directly "
                "behind the codec that makes bytes of the array"
            )
        encoded = call_imagecodecs(
            self.name,
            f"{self.functions}_encode",
            bytes_of(chunk_data).tobytes(),
            **{**self.defaults, **self.configuration},
        )
        return chunk_spec.prototype.buffer.from_bytes(encoded)

    def _decode_sync(self, chunk_data: Buffer, chunk_spec: ArraySpec) -> Buffer:
        most = self._chunk_bytes(chunk_spec)
        decoded = self._decoded(bytes_of(chunk_data), most)
        return chunk_spec.prototype.buffer.from_bytes(decoded[:most])

    def _decoded(self, encoded: npt.NDArray[np.uint8], most: int | None) -> bytes:
        decoded: bytes = call_imagecodecs(self.name, f"{self.functions}_decode", encoded)
        return decoded

    @staticmethod
    def _chunk_bytes(chunk_spec: ArraySpec) -> int | None:
        """The bytes of the elements of a chunk; None if elements vary in size."""
        dtype = dtype_of(chunk_spec)
        return None if dtype.hasobject else prod(chunk_spec.shape) * dtype.itemsize


class _Bounded(_Compressor):
    """Decoded up to a chunk only: a stream of LZW may expand by 1,300 times, and HDF5's LZF has no size."""

    def _decoded(self, encoded: npt.NDArray[np.uint8], most: int | None) -> bytes:
        given = {**self.defaults, **self.configuration}
        options = {member: given[member] for member in self.decoding if member in given}
        decoded: bytes = call_imagecodecs(
            self.name, f"{self.functions}_decode", encoded, out=most, **options
        )
        return decoded


class Lzw(_Bounded):
    """LZW as in TIFF, with the first code in the most significant bits; also that of old TIFF files."""

    name = "imagecodecs_lzw"
    functions = "lzw"


class Lzf(_Bounded):
    """LZF, with or without a header; HDF5's filter of this name writes none."""

    name = "imagecodecs_lzf"
    functions = "lzf"
    defaults: ClassVar[Mapping[str, Any]] = {"header": True}
    decoding = ("header",)


class Lz4h5(_Bounded):
    """LZ4 in blocks, as HDF5's filter of this name writes it."""

    name = "imagecodecs_lz4h5"
    functions = "lz4h5"


class Szip(_Bounded):
    """Szip; its configuration has the parameters of HDF5's filter, and `header`: the size is in front."""

    name = "imagecodecs_szip"
    functions = "szip"
    defaults: ClassVar[Mapping[str, Any]] = {
        **dict.fromkeys(("options_mask", "pixels_per_block", "bits_per_pixel"), 0),
        "pixels_per_scanline": 0,
        "header": True,
    }
    decoding = tuple(defaults)


class Packbits(_Compressor):
    """The run-length encoding of TIFF and Macintosh. It is not the codec `packbits` of the registry."""

    name = "imagecodecs_packbits"
    functions = "packbits"


# -- predictors and packed integers


class _Predictor(Threaded, Configured):
    """A predictor along `axis`, from the element before.

    imagecodecs has no other distance for integers, and does not read what it writes with one for floats.
    """

    def validate(self, *, shape: tuple[int, ...], dtype: Any, chunk_grid: Any) -> None:
        """Raises `ValueError` if the configuration does not go with the array."""
        super().validate(shape=shape, dtype=dtype, chunk_grid=chunk_grid)
        if self.configuration.get("dist", 1) != 1:
            raise ValueError(f"{self.name}: configuration: dist: only 1 is supported")

    def compute_encoded_size(self, input_byte_length: int, chunk_spec: ArraySpec) -> int:
        """As many bytes."""
        return input_byte_length


class Delta(_Predictor, ArrayArrayCodec):
    """Differences to the element before, modulo the width of the elements; floats as their bits."""

    name = "imagecodecs_delta"
    is_fixed_size = True

    def _encode_sync(self, chunk_data: NDBuffer, chunk_spec: ArraySpec) -> NDBuffer | None:
        return self._call("delta_encode", chunk_data, chunk_spec)

    def _decode_sync(self, chunk_data: NDBuffer, chunk_spec: ArraySpec) -> NDBuffer:
        return self._call("delta_decode", chunk_data, chunk_spec)

    def _call(self, function: str, chunk_data: NDBuffer, chunk_spec: ArraySpec) -> NDBuffer:
        pixels = chunk_data.as_numpy_array()
        return nd_buffer_of(
            call_imagecodecs(self.name, function, pixels, **self.configuration), chunk_spec
        )


class Floatpred(_Predictor, ArrayBytesCodec):
    """The floating point predictor of TIFF: bytes of a row by significance, and their differences.

    The most significant bytes are first in files of any byte order.
    """

    name = "imagecodecs_floatpred"
    is_fixed_size = True

    def _encode_sync(self, chunk_data: NDBuffer, chunk_spec: ArraySpec) -> Buffer | None:
        pixels = np.ascontiguousarray(chunk_data.as_numpy_array(), dtype_of(chunk_spec))
        encoded = call_imagecodecs(self.name, "floatpred_encode", pixels, **self.configuration)
        return chunk_spec.prototype.buffer.from_bytes(encoded.tobytes())

    def _decode_sync(self, chunk_data: Buffer, chunk_spec: ArraySpec) -> NDBuffer:
        encoded, dtype = bytes_of(chunk_data), dtype_of(chunk_spec)
        _check_length(self.name, len(encoded), prod(chunk_spec.shape) * dtype.itemsize)
        rows = np.ascontiguousarray(encoded).view(dtype).reshape(chunk_spec.shape)
        pixels = call_imagecodecs(self.name, "floatpred_decode", rows, **self.configuration)
        return nd_buffer_of(pixels, chunk_spec)


class Bitshuffle(Threaded, Configured, ArrayBytesCodec):
    """The bits of elements by significance, in blocks of `blocksize` elements (0: of 8 KiB)."""

    name = "imagecodecs_bitshuffle"
    is_fixed_size = True

    def compute_encoded_size(self, input_byte_length: int, chunk_spec: ArraySpec) -> int:
        """As many bytes."""
        return input_byte_length

    def _call(self, function: str, data: bytes, chunk_spec: ArraySpec) -> Any:
        itemsize = dtype_of(chunk_spec).itemsize
        return call_imagecodecs(self.name, function, data, itemsize=itemsize, **self.configuration)

    def _encode_sync(self, chunk_data: NDBuffer, chunk_spec: ArraySpec) -> Buffer | None:
        pixels = np.ascontiguousarray(chunk_data.as_numpy_array(), dtype_of(chunk_spec))
        encoded = self._call("bitshuffle_encode", pixels.tobytes(), chunk_spec)
        return chunk_spec.prototype.buffer.from_bytes(encoded)

    def _decode_sync(self, chunk_data: Buffer, chunk_spec: ArraySpec) -> NDBuffer:
        dtype = dtype_of(chunk_spec)
        encoded = bytes_of(chunk_data).tobytes()
        _check_length(self.name, len(encoded), prod(chunk_spec.shape) * dtype.itemsize)
        decoded = self._call("bitshuffle_decode", encoded, chunk_spec)
        return nd_buffer_of(np.frombuffer(decoded, dtype), chunk_spec)


class Packints(Threaded, Configured, ArrayBytesCodec):
    """Unsigned integers of any number of bits; each run of `runlen` begins at a byte, as rows in TIFF."""

    name = "imagecodecs_packints"
    is_fixed_size = True

    def compute_encoded_size(self, input_byte_length: int, chunk_spec: ArraySpec) -> int:
        """The bytes of all runs."""
        size = packed_integer_bytes(self.configuration, chunk_spec.shape)
        assert size is not None  # `validate` has judged the configuration
        return size

    def _call(self, function: str, *arguments: Any) -> Any:
        options = {"runlen": 0, **self.configuration}
        bits = options.pop("bitspersample", 8)
        return call_imagecodecs(self.name, function, *arguments, bits, **options)

    def _encode_sync(self, chunk_data: NDBuffer, chunk_spec: ArraySpec) -> Buffer | None:
        pixels = np.ascontiguousarray(chunk_data.as_numpy_array(), dtype_of(chunk_spec)).reshape(-1)
        most = (1 << self.configuration.get("bitspersample", 8)) - 1
        if pixels.size and int(pixels.max()) > most:
            raise ValueError(
                f"{self.name}: {pixels.max()} is more than {most}, which fits its bits"
            )
        encoded = self._call("packints_encode", pixels)
        return chunk_spec.prototype.buffer.from_bytes(bytes(encoded))

    def _decode_sync(self, chunk_data: Buffer, chunk_spec: ArraySpec) -> NDBuffer:
        # Behind `imagecodecs_lzw` there may be more bytes, see `_Compressor`.
        size = self.compute_encoded_size(0, chunk_spec)
        encoded = bytes_of(chunk_data)[:size]
        _check_length(self.name, len(encoded), size)
        pixels = self._call("packints_decode", encoded, dtype_of(chunk_spec))
        return nd_buffer_of(pixels, chunk_spec)


def _check_length(name: str, found: int, expected: int) -> None:
    if found != expected:
        raise ValueError(f"{name}: a chunk has {found} bytes, not {expected}")


# -- image files


class _Image(Threaded, Configured, ArrayBytesCodec):
    """A chunk as an image file of imagecodecs.

    `decoding` and `encoding`: the arguments that its functions take, by the members they come from. An
    image has two or three dimensions; those of a chunk of length 1 are left out.
    """

    is_fixed_size = False

    functions: ClassVar[str]
    decoding: ClassVar[Mapping[str, str]] = {}
    encoding: ClassVar[Mapping[str, str]] = {}

    def _encode_sync(self, chunk_data: NDBuffer, chunk_spec: ArraySpec) -> Buffer | None:
        pixels = np.ascontiguousarray(chunk_data.as_numpy_array(), dtype_of(chunk_spec)).squeeze()
        planar = self.configuration.get("planar")
        image = np.atleast_3d(pixels) if planar else np.atleast_2d(pixels)
        options = self._arguments(self.encoding)
        encoded = call_imagecodecs(self.name, f"{self.functions}_encode", image, **options)
        return chunk_spec.prototype.buffer.from_bytes(bytes(encoded))

    def _decode_sync(self, chunk_data: Buffer, chunk_spec: ArraySpec) -> NDBuffer:
        shape, dtype = chunk_spec.shape, dtype_of(chunk_spec).newbyteorder("=")
        memory = np.empty(prod(shape) * dtype.itemsize, np.uint8)
        # Given memory, not an array, imagecodecs does not take signed for unsigned numbers.
        image = self._decoded(bytes_of(chunk_data), shape, out=memory.data)
        expected = tuple(length for length in shape if length != 1)
        if image.dtype != dtype or image.squeeze().shape != expected:
            raise ValueError(
                f"{self.name}: an image is {image.dtype} of the shape {image.shape}, not {dtype} of the "
                f"shape {shape}"
            )
        return nd_buffer_of(image, chunk_spec)

    def _decoded(self, encoded: Any, shape: tuple[int, ...], **options: Any) -> Any:
        """The image, decoded into the memory `out`: imagecodecs refuses a larger one."""
        options = {**self._arguments(self.decoding), **options}
        return call_imagecodecs(self.name, f"{self.functions}_decode", encoded, **options)

    def _arguments(self, members: Mapping[str, str]) -> dict[str, Any]:
        return {members[m]: value for m, value in self.configuration.items() if m in members}


def _as_named(*members: str) -> dict[str, str]:
    return {member: member for member in members}


class Jpeg(_Image):
    """JPEG of 8 or 12 bits, and lossless JPEG.

    `tables`: what TIFF has in its tag JPEGTables. `header`: what is in front of the data of every chunk, if
    these have neither that nor an end marker.
    """

    name = "imagecodecs_jpeg"
    functions = "jpeg8"
    decoding: ClassVar[Mapping[str, str]] = {
        "tables": "tables",
        "colorspace_jpeg": "colorspace",
        "colorspace_data": "outcolorspace",
        "fancyupsampling": "fancyupsampling",
    }
    encoding: ClassVar[Mapping[str, str]] = {
        "colorspace_data": "colorspace",
        "colorspace_jpeg": "outcolorspace",
        **_as_named("level", "bitspersample", "subsampling", "optimize", "smoothing"),
        **_as_named("lossless", "predictor"),
    }

    def _arguments(self, members: Mapping[str, str]) -> dict[str, Any]:
        arguments = super()._arguments(members)
        tables = arguments.get("tables")
        return arguments if tables is None else {**arguments, "tables": base64.b64decode(tables)}

    def _decoded(self, encoded: Any, shape: tuple[int, ...], **options: Any) -> Any:
        header = self.configuration.get("header")
        if header is not None:
            encoded = b"".join([base64.b64decode(header), encoded.tobytes(), b"\xff\xd9"])
        return super()._decoded(encoded, shape, **options)


class Jpeg2k(_Image):
    """JPEG 2000, as a codestream or a file."""

    name = "imagecodecs_jpeg2k"
    functions = "jpeg2k"
    decoding: ClassVar[Mapping[str, str]] = _as_named("planar", "skipres", "verbose", "numthreads")
    encoding: ClassVar[Mapping[str, str]] = {
        **_as_named("level", "codecformat", "colorspace", "planar", "tile", "bitspersample"),
        **_as_named("resolutions", "reversible", "mct", "verbose", "numthreads"),
    }


class Jpegxl(_Image):
    """JPEG XL."""

    name = "imagecodecs_jpegxl"
    functions = "jpegxl"
    decoding: ClassVar[Mapping[str, str]] = _as_named("index", "keeporientation", "numthreads")
    encoding: ClassVar[Mapping[str, str]] = {
        **_as_named("level", "effort", "distance", "lossless", "decodingspeed", "photometric"),
        **_as_named("bitspersample", "planar", "primaries", "transfer", "perceptualheuristics"),
        **_as_named("usecontainer", "numthreads"),
    }


class Jpegxr(_Image):
    """JPEG XR."""

    name = "imagecodecs_jpegxr"
    functions = "jpegxr"
    decoding: ClassVar[Mapping[str, str]] = _as_named("fp2int")
    encoding: ClassVar[Mapping[str, str]] = _as_named(
        "level", "photometric", "hasalpha", "resolution"
    )


class Webp(_Image):
    """WebP. An opaque image may lack its alpha channel; it is 255 if the chunk has four samples."""

    name = "imagecodecs_webp"
    functions = "webp"
    decoding: ClassVar[Mapping[str, str]] = _as_named("index", "hasalpha")
    encoding: ClassVar[Mapping[str, str]] = _as_named(
        "level", "lossless", "method", "numthreads", "delay"
    )

    def _decoded(self, encoded: Any, shape: tuple[int, ...], **options: Any) -> Any:
        has_alpha = True if shape[-1:] == (4,) else self.configuration.get("hasalpha")
        return super()._decoded(encoded, shape, **options, hasalpha=has_alpha)


class Lerc(_Image):
    """LERC, alone or compressed with Zstandard or Deflate. Floats that its mask leaves out are NaN."""

    name = "imagecodecs_lerc"
    functions = "lerc"
    encoding: ClassVar[Mapping[str, str]] = _as_named(
        "level", "version", "planar", "compression", "compressionargs"
    )

    def _decoded(self, encoded: Any, shape: tuple[int, ...], **options: Any) -> Any:
        pixels, valid = super()._decoded(encoded, shape, **options, masks=True)
        if valid is not None and not valid.all():
            if pixels.dtype.kind != "f":
                raise ValueError(
                    f"{self.name}: a mask leaves out pixels, which {pixels.dtype} can't"
                )
            pixels[~valid] = np.nan
        return pixels


class Png(_Image):
    """PNG."""

    name = "imagecodecs_png"
    functions = "png"
    encoding: ClassVar[Mapping[str, str]] = _as_named(
        "level", "strategy", "filter", "primaries", "transfer", "matrix"
    )
