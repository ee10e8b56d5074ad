"""Any remote store as a store of bytes: what is asked of a server, how long, and what is kept of it.

Owns time-outs, repeated requests, the cache in memory and on disk, listings and reading ahead. Used by
`stores.object`, `stores.http` and `stores.zarr_python`, which give it their requests (`Requests`). It must
not know protocols of servers.
"""
