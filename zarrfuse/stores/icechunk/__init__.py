"""Icechunk repositories as remote stores: a branch, a tag or a snapshot of one.

Used by `stores.opening`. `source` says which repository and what of it, `opening` opens it, `requests` asks
it. It must not know zarrfuse's views, and imports icechunk only when a repository is opened.
"""
