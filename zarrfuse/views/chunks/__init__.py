"""The `chunks` view: one file for each chunk, parts merged, all else as it is stored.

Owns which stored keys are a chunk, how they are read as one file and how one file is split. Used by
`views.choice`, and by the views `plain` and `images`, which stand on it. It does not decode chunks.
"""
