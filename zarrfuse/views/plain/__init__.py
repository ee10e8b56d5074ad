"""The `plain` view: the same data as a core Zarr v3 store.

Owns the translation of documents and keys, in both directions. Used by `views.choice`, `zarr_python` and
the `images` view. It reads and stores chunks through the `chunks` view, and must not decode them.
"""
