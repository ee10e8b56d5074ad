"""The `images` view: arrays, chunks and pyramids as TIFF, NPY, PNG and OME-TIFF files.

Owns which files there are, and which chunks a part of a file is made of. Used by `views.choice`. It
is read-only, and decodes by `decoding`, in other processes, what is read.
"""
