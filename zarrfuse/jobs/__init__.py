"""Work on many files at once: in this process, in processes of this machine, or on a Dask cluster.

Used by `indexing` and `check`. It must not know what the work is.
"""
