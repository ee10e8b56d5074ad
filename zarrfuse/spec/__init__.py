"""What Zarr metadata means, as values and pure functions.

`members` takes values out of JSON or refuses them, `names` says how an extension is named and
written down, `registry` which class that name stands for, and `context` what a name means where a
document has a `@context`. `chunk_keys` says which key a chunk has, `concat_parts` and `transformers`
which keys a chunk in parts is stored under. `extensions` is what a generic extension can do, `zep10`
are those built in, `active` says which act on a node, and `references` which do because the node
refers to another; `paths` has the rules for that. `node` and `node_v2` say what a `zarr.json`,
`.zarray` or `.zgroup` says as a whole. `ome` says what an array is as a picture and a group as a
pyramid, with `axes`, `coordinates`, `dimensions` and `usable`, which takes only what is sound.

Nothing here reads or writes, waits, or knows numpy: bytes and JSON values come in, values and
`zarrfuse.errors.MetadataError` come out. Stores, files and views build on it.
"""
