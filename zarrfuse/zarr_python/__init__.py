"""zarrfuse in zarr-python: a store without a mount, a chunk key encoding and a codec.

Owns the adapters to zarr-python's interfaces. Used by `zarrfuse.open_store`, and by zarr-python through
entry points. No other package may import it.
"""
