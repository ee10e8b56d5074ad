"""The `raw` view: every key of the store, byte for byte.

Owns nothing but the way from a name to its key. Used by `views.choice`. It knows neither arrays nor
chunks.
"""
