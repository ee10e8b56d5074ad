"""`zarrfuse export`: a Zarr array is written as files that are TIFF or HDF5, and shards at once.

Used by `cli`. It must not know how pixels are stored: it reads them through `zarr_python`, and encoded
inner chunks through `views`.
"""
