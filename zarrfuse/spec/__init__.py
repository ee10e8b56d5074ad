"""The meaning of Zarr metadata, as values and pure functions.

`members` checks JSON values, `names` parses extension names (ZEP 9), `registry` finds the class of a name,
`context` resolves a `@context`. `chunk_keys` has the chunk key encodings, `concat_parts` and `transformers`
the keys of chunks in parts. `extensions` is the base class of generic extensions (ZEP 10), `zep10` has the
built-in ones, `active` those that act on a node, `references` those of referenced nodes, `paths` the rules
of paths. `node`, `node_v3` and `node_v2` parse whole documents. `ome` describes arrays as pictures and
groups as pyramids, with `axes`, `coordinates`, `dimensions` and `usable`.

Nothing here reads or writes, waits, or knows numpy: bytes and JSON values come in, values and
`zarrfuse.errors.MetadataError` come out. Used by all packages above.
"""
