"""The commands of `zarrfuse`.

Owns options, output and exit codes. `app` has the commands, the other modules what some of them do. Used by
the `zarrfuse` script. It must not know kernel requests or how a view is made.
"""
