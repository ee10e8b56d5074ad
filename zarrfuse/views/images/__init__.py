"""The `images` view: arrays, chunks and pyramids as TIFF, NPY, PNG and OME-TIFF files.

Owns which files are shown, and which chunks a range of a file is made of. Used by `views.choice`. It is
read-only. Chunks are decoded when they are read, by `decoding`, in other processes.
"""
