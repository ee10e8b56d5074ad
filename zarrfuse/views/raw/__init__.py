"""The `raw` view: every key of the store, byte for byte.

Owns only the way from a name to its key. Used by `views.choice`. It must not know arrays and chunks.
"""
