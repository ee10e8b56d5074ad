"""Files of other formats that are Zarr shards: TIFF, and HDF5.

The tiles or strips of a TIFF file, and the chunks of an HDF5 dataset, are encoded as Zarr encodes inner
chunks. With a list of their offsets and sizes behind it, such a file is a shard (`sharding_indexed`). The
modules `tiff` and `hdf5` read the headers of files and say where the pixels are and how they are encoded
(`layout`); `index` makes the list, `documents` the `zarr.json` of an array of such files.

Used by `indexing` and `exporting`. It must not know folders, patterns of names, or command lines.
"""
