"""Any remote store as a store of bytes: what is asked of a server, how long, and what is kept of it.

Owns time-outs, repeated requests, the cache in memory and on disk, listings and reading ahead. Used by
`stores.object`, `http`, `icechunk`, `zarr_store` and `relay`, which give it their requests (`Requests`). It
must not know protocols of servers.
"""
