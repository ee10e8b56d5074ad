"""What one file is made of: TIFF, NPY or PNG around pixels, or segments of stored keys.

Owns the bytes of headers and the layout behind them. Used by the views. It knows neither stores nor
Zarr.
"""
