"""The codecs named `imagecodecs_*` for zarr-python: those of imagecodecs, otherwise our own.

The entry points of `pyproject.toml` name this module. imagecodecs has the codecs since 2026.6, for Python
3.12, and the package imagecodecs-zarr registers the same names. zarr-python warns of a name with two
classes, so both packages have to name the same one.
"""

from types import ModuleType

from zarrfuse.zarr_python import own_image_codecs

try:
    import imagecodecs.zarr

    codecs: ModuleType = imagecodecs.zarr
except ImportError:
    codecs = own_image_codecs

Delta, Floatpred, Packints = codecs.Delta, codecs.Floatpred, codecs.Packints
Lzw, Packbits = codecs.Lzw, codecs.Packbits
# Always our own: those of imagecodecs 2026.10 read LZF without a header only where it expands little, and
# unshuffle bits as if every element had one byte.
Bitshuffle, Lzf = own_image_codecs.Bitshuffle, own_image_codecs.Lzf
Lz4h5, Szip = own_image_codecs.Lz4h5, own_image_codecs.Szip
Jpeg, Jpeg2k, Jpegxl, Jpegxr = codecs.Jpeg, codecs.Jpeg2k, codecs.Jpegxl, codecs.Jpegxr
Webp, Lerc, Png = codecs.Webp, codecs.Lerc, codecs.Png
