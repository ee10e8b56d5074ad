"""The `plain` view: the same data as a core Zarr v3 store.

Owns the translation of documents and keys, both ways. Used by `views.choice` and `zarr_python`.
What is stored of a chunk it leaves to the view `chunks`; it does not decode chunks.
"""
