"""zarrfuse: a Zarr store as ordinary files.

The map of the house, top to bottom; imports point down only:

* `cli` - commands and options; `demo`, `doctor` and `info` are what some of them do.
* `daemon` - mount, readiness, signals, unmount; `mounts` - what the kernel has mounted.
* `fuse` - kernel requests in, replies and errno out; `inodes` - numbers for names; `handles` - what
  is open; `replies` - what the kernel is told of names; `threads` - store calls with a time-out;
  `eager` - waits for requests without parking in trio.
* `views` - what a store looks like as a tree of files.
* `files` - what one file is made of.
* `stores` - where bytes live.
* `spec` - what Zarr metadata means: pure, no input or output.
* `config`, `errors` - frozen settings; every exception of ours and the only errno table.

`docs/design.md` tells the way of a read through it.
"""

__version__ = "0.1.0"
