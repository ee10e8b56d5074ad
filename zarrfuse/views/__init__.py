"""How a store looks as a tree of files.

Owns the names, sizes, bytes and permissions of the files, and where writes to them are stored. `base` is
the protocol of a folder; each view has a package of its own, with a function `root` in the module `root`;
`choice` makes a view by its name. Used by `fuse`, `mounts`, `check`, `cli` and `zarr_python`. It must not
know the kernel or event loops.
"""
