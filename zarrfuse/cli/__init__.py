"""The commands of `zarrfuse`.

Owns options, output and exit codes. `app` is the program; `mount`, `check`, `index` and `export` have the
commands with many options; `info`, `demo` and `doctor` do the work of those with few. Used by the script
`zarrfuse`. It must not know kernel requests or how a view is made.
"""
