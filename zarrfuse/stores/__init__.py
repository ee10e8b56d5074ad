"""Where bytes live: a folder, a zip file, an object store.

Owns every call that reads or changes them, and that none leads out of the source; `base` has the
protocols. Used by views and transactions. It knows neither chunks nor documents.
"""
