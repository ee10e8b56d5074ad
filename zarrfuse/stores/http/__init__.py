"""The files below a URL of `http` or `https`, read-only, on servers that list and on those that do not.

Owns the requests of the protocol HTTP, the pages in which servers list, and the names that metadata give
where a server lists nothing. Used by `stores.opening`, which gives `opening.http_requests` to `remote`. It
is imported only for a URL, and needs `zarrfuse[http]`. It must not know time limits of programs, caches of
bytes, or repeated requests: these are of `remote`.
"""
