"""What one file is made of: TIFF, OME-TIFF, ImageJ's TIFF, NPY and PNG around pixels, and segments
of stored keys.

Owns the bytes of headers and the layout behind them. Used by the views. It knows neither stores nor
Zarr.
"""
