"""What the codecs that call imagecodecs have in common: the configuration, the call, threads, buffers.

`spec.image_codecs` judges configurations. Used by `own_image_codecs`. It must not know what a codec does.
Wrong metadata, and whatever imagecodecs raises, are a `ValueError`.
"""

import asyncio
import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from zarr.core.array_spec import ArraySpec
from zarr.core.buffer import Buffer, NDBuffer

from zarrfuse.spec.codec_rules import Array
from zarrfuse.spec.data_types import parse_data_type
from zarrfuse.spec.image_codecs import IMAGE_CODECS


def call_imagecodecs(name: str, function: str, *arguments: Any, **options: Any) -> Any:
    """Call a function of imagecodecs for the codec of this name; any failure is a `ValueError`."""
    try:
        import imagecodecs  # noqa: PLC0415
    except ImportError as error:
        raise ValueError(
            f"{name}: imagecodecs is not installed; run pip install 'zarrfuse[codecs]'"
        ) from error
    given = {key: value for key, value in options.items() if value is not None}
    try:
        return getattr(imagecodecs, function)(*arguments, **given)
    # Its errors are RuntimeError; ImportError: it was built without this codec; TypeError: this version
    # lacks an option.
    except (RuntimeError, ValueError, TypeError, ImportError) as error:
        raise ValueError(f"{name}: {error}") from error


@dataclass(frozen=True, init=False)
class Configured:
    """A codec with the name `name` and the members of its configuration as keyword arguments."""

    name: ClassVar[str]

    configuration: Mapping[str, Any] = field(hash=False)

    def __init__(self, **configuration: Any) -> None:
        for member, value in configuration.items():
            if isinstance(value, bytes):
                configuration[member] = base64.b64encode(value).decode()
        self._judge(configuration, Array(None, None))
        object.__setattr__(self, "configuration", configuration)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Parse the object of a `zarr.json`; it may have no configuration."""
        configuration = data.get("configuration") or {}
        if not isinstance(configuration, Mapping):
            raise ValueError(f"{cls.name}: configuration: must be an object, not {configuration!r}")
        return cls(**configuration)

    def to_dict(self) -> dict[str, Any]:
        """The object for a `zarr.json`."""
        if not self.configuration:
            return {"name": self.name}
        return {"name": self.name, "configuration": dict(self.configuration)}

    def validate(self, *, shape: tuple[int, ...], dtype: Any, chunk_grid: Any) -> None:
        """Raises `ValueError` if the configuration does not go with the array."""
        data_type = parse_data_type(dtype.to_json(zarr_format=3))
        chunk_shape = getattr(chunk_grid, "chunk_shape", None)
        self._judge(self.configuration, Array(data_type, chunk_shape))

    def _judge(self, configuration: Mapping[str, Any], array: Array) -> None:
        judge = IMAGE_CODECS[self.name].judge
        assert judge is not None
        for problem in judge(configuration, array):
            raise ValueError(f"{self.name}: {problem}")

    def compute_encoded_size(self, input_byte_length: int, chunk_spec: ArraySpec) -> int:
        """The encoded bytes of a chunk; `NotImplementedError` for compression."""
        raise NotImplementedError


class Threaded:
    """A codec with `_encode_sync` and `_decode_sync`; zarr-python before 3.2 awaits `_single`."""

    _encode_sync: Any
    _decode_sync: Any

    async def _encode_single(self, chunk_data: Any, chunk_spec: ArraySpec) -> Any:
        return await asyncio.to_thread(self._encode_sync, chunk_data, chunk_spec)

    async def _decode_single(self, chunk_data: Any, chunk_spec: ArraySpec) -> Any:
        return await asyncio.to_thread(self._decode_sync, chunk_data, chunk_spec)


def dtype_of(chunk_spec: ArraySpec) -> np.dtype[Any]:
    """The data type of the elements of a chunk."""
    dtype: np.dtype[Any] = chunk_spec.dtype.to_native_dtype()
    return dtype


def nd_buffer_of(pixels: npt.NDArray[Any], chunk_spec: ArraySpec) -> NDBuffer:
    """A decoded chunk, in the shape that it has in the array."""
    return chunk_spec.prototype.nd_buffer.from_numpy_array(pixels.reshape(chunk_spec.shape))


def bytes_of(chunk_data: Buffer) -> npt.NDArray[np.uint8]:
    """The bytes of an encoded chunk."""
    return chunk_data.as_numpy_array().view(np.uint8)
