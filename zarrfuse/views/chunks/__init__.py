"""The `chunks` view: one file for each chunk, parts merged, all else as it is stored.

Owns which stored keys are a chunk, how they are merged on read and split on write. Used by `views.choice`,
and by `plain` and `images`, which are built on it. It must not decode chunks, except to find empty ones.
"""
