"""File formats: TIFF, OME-TIFF, NPY and PNG around pixels, and files made of segments.

Owns the bytes of headers and the layout of files. Used by views. It must not know arrays of a store.
"""
