"""The requests to a store that lives in another process: a store object of a Python program.

`answering` runs in that process, `requests` in the daemon; between them is a socket, and `messages` go over
it. Used by `mounts`. It must not know what a store is: it has its `Requests`.
"""
