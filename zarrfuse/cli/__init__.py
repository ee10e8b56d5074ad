"""The commands.

Owns options, what is printed, and exit codes; `app` has the commands, the other modules what some
of them do. Used by the `zarrfuse` script. It knows nothing of kernel requests or of how a view is
made.
"""
