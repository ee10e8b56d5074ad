"""What a store looks like as a tree of files.

Owns the names, sizes, bytes and permissions of files, and where what is written to them is stored;
`base` has the protocol of a folder, each view a folder of its own, and `choice` makes the view of a
name. Used by `fuse`, `check`, `cli` and `zarr_python`. It knows nothing of the kernel and of event
loops.
"""
