"""Arrays opened through a decoder."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from zarrfuse.views.images.decode import DecodedArray

Opener = Callable[..., DecodedArray]


def random_values(shape: Sequence[int], dtype: Any) -> np.ndarray:
    rng = np.random.default_rng(1)
    raw = rng.integers(0, 200, shape)
    return raw.astype(dtype)
