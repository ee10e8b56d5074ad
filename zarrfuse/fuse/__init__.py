"""The kernel's side: answers FUSE requests from a view.

`operations` is the class that pyfuse3 calls, `answering` makes errnos of what its handlers raise. It uses
`nodes` (inodes), `folders` (lookups and listings), `files` (open files), `contents` (their bytes),
`storing` (when these are stored), `names` (changes of names), `attributes`, `replies`, `workers` (threads)
and `eager` (the event loop). Used by `mounts`. It must not know Zarr, parts or chunks.
"""
