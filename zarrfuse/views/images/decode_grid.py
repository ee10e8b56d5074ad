"""The units of an array, which are decoded by themselves, and boxes counted in bytes.

Pure. Used by `blocks` and `decode`.
"""

from zarrfuse.spec.node import ArrayNode
from zarrfuse.views.images.regions import Corner


def unit_shape(node: ArrayNode) -> Corner:
    """The shape of the smallest box of an array that zarr-python decodes by itself.

    That of an inner chunk if sharding is the only codec, else that of a chunk: with a transpose, or a
    checksum over the whole shard, a shard is decoded as a whole.
    """
    if len(node.codecs) == 1 and node.codecs[0].name == "sharding_indexed":
        inner = node.codecs[0].configuration.get("chunk_shape")
        if isinstance(inner, list | tuple) and len(inner) == node.ndim:
            fits = all(
                isinstance(i, int) and i > 0 and not c % i
                for i, c in zip(inner, node.chunk_shape, strict=True)
            )
            if fits:
                return tuple(inner)
    return node.chunk_shape


def in_bytes(shape: Corner, itemsize: int) -> Corner:
    """A shape, or an upper corner, with the last dimension counted in bytes."""
    return (*shape[:-1], shape[-1] * itemsize) if shape else (itemsize,)


def in_bytes_at(low: Corner, itemsize: int) -> Corner:
    """A lower corner, with the last dimension counted in bytes."""
    return (*low[:-1], low[-1] * itemsize) if low else (0,)
