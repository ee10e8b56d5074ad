"""Arrays as TIFF files, as tifffile reads them."""

import numpy as np
from pictures import counting, whole

from zarrfuse.formats.tiff import array_tiff
from zarrfuse.spec.ome import Channel, Picture

RGB = (Channel("r", 0xFF0000), Channel("g", 0x00FF00), Channel("b", 0x0000FF))


def made(
    shape: tuple[int, ...], dtype: str, shown: Picture, name: str = "a"
) -> tuple[np.ndarray, bytes]:
    array = counting(shape, dtype)
    return array, whole(array, array_tiff(shape, array.dtype, shown, name))
