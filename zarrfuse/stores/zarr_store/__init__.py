"""Any store of zarr-python as a remote store: memory, fsspec, obstore, Icechunk, or a class of the user.

Used by `stores.icechunk` and `mounts.in_python`. It must not know what a key means, and imports zarr-python
only when it is given a store.
"""
