"""The codecs named `imagecodecs_*` for zarr-python: those of imagecodecs, otherwise our own.

The entry points of `pyproject.toml` name this module. imagecodecs has the codecs since 2026.6, for Python
3.12, and the package imagecodecs-zarr registers the same names. zarr-python warns of a name with two
classes, so both packages have to name the same one.
"""

try:
    from imagecodecs.zarr import (
        Delta,
        Floatpred,
        Jpeg,
        Jpeg2k,
        Jpegxl,
        Jpegxr,
        Lerc,
        Lzw,
        Packbits,
        Packints,
        Png,
        Webp,
    )
except ImportError:
    from zarrfuse.zarr_python.own_image_codecs import (
        Delta,
        Floatpred,
        Jpeg,
        Jpeg2k,
        Jpegxl,
        Jpegxr,
        Lerc,
        Lzw,
        Packbits,
        Packints,
        Png,
        Webp,
    )

__all__ = [
    "Delta",
    "Floatpred",
    "Jpeg",
    "Jpeg2k",
    "Jpegxl",
    "Jpegxr",
    "Lerc",
    "Lzw",
    "Packbits",
    "Packints",
    "Png",
    "Webp",
]
