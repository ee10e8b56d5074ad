"""The keys below a prefix of S3, Google Cloud Storage or Azure as a store.

Owns every request to a bucket, its time limits and its errors. Used by `stores.opening`. It is
imported only for a URL, and needs `zarrfuse[object]`.
"""
