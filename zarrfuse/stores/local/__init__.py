"""A folder of this machine as a store.

Owns every system call below that folder, beneath whose descriptor all paths are opened, and whose
files are made. Used by `stores.opening` and by transactions, which keep their own files there. It
knows neither chunks nor journals.
"""
