"""What Zarr metadata means, as values and pure functions.

`members` takes values out of JSON or refuses them, `names` says how an extension is named and
written down, `chunk_keys` which key a chunk has, `concat_parts` which keys a chunk in parts is
stored under, `extensions` what the `extensions` of a node demand, and `node` what a `zarr.json`,
`.zarray` or `.zgroup` says as a whole.

Nothing here reads or writes, waits, or knows numpy: bytes and JSON values come in, values and
`zarrfuse.errors.MetadataError` come out. Stores, files and views build on it.
"""
