"""`zarrfuse index`: a folder of TIFF or HDF5 files becomes a Zarr array, pixels left where they are.

Owns which file is which chunk, and the order in which a dataset is written. Used by `cli` and
`zarrfuse.index`. It must not know how formats of files are read: `shards` does.
"""
