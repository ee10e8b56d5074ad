"""The kernel's side: answers FUSE requests from a view.

`operations` is the class that pyfuse3 calls. It uses `nodes` (inodes), `folders` (lookups and listings),
`files` (open files, and when they are stored), `names` (changes of names), `replies` (attributes),
`workers` (threads) and `eager` (the event loop). Used by `mounts`. It must not know Zarr, parts or chunks.
"""
