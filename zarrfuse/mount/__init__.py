"""One mount: how its daemon lives, and what the kernel has mounted where.

Owns the process: starting, readiness, signals, logging, unmounting. Used by `cli`. It knows views
only as roots that it hands to `fuse`.
"""
