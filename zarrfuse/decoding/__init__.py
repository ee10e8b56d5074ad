"""Decodes chunks in worker processes, which may crash, and have limits of memory and time.

`workers` is the side of the daemon, `worker` that of the process. Used by the `images` view, and by `views`
to find empty chunks. It must not know views.
"""
