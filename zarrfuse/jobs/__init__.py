"""Work on many items at once: in this process, in processes of this machine, or on a Dask cluster.

`opening` chooses between `in_process`, `processes` and `dask_cluster`, which all are `base.Jobs`; `outcome`
is how work, results and exceptions travel between processes. Used by `indexing` and `check`. It must not
know what the work is.
"""
