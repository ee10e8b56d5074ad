"""A zip file as a store that is read.

Owns its directory, which is read once, and its members. Used by `stores.opening`. Nothing in it is
written.
"""
