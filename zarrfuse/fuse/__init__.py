"""The kernel's side: what the kernel asks of a mount, answered from a view.

`operations` is the class that pyfuse3 sees. It stands on parts that do not know each other's insides:
`nodes` (inode numbers and names), `folders` (look-ups and listings), `files` (what is open, and when it is
stored), `names` (changes of names), `replies` (attributes), `workers` (threads) and `eager` (the event
loop). None of them knows Zarr, parts or chunks.
"""
