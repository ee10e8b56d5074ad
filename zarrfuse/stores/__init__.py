"""Stores of bytes by key: a folder, a zip file, a bucket, a web server, any store of zarr-python.

Owns every call that reads or changes stored bytes, and makes sure that none leaves the source. `base` has
the protocols. Used by views and transactions. It must not know chunks or documents.
"""
