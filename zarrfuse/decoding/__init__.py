"""Decoding in processes of its own, which may crash and have a memory limit.

`workers` is the daemon's side, `worker` the other.
"""
