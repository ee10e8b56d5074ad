"""Mounts: the daemon of one mount, and the kernel's table of mounts.

Owns the process: start, readiness, signals, logging, unmounting. Used by `cli`. It must not know views
beyond the root folder that it hands to `fuse`.
"""
