"""The folders of a store that cannot list what is in it, made from what documents of Zarr say exists.

Owns which documents are asked for, and which names follow from them: nodes, images, labels, wells, and the
chunks of a grid. Used by `stores.http` and `stores.zarr_store`. It must not know protocols of servers.
"""
