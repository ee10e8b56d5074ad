"""How fast a mount is, measured beside its peers: `python -m benchmarks`, or `make bench`.

The same data are read from the folder itself (ext4 or what it lies on), through bindfs and through
zarrfuse, in one run and in alternation, so that figures of one table can be compared. What is
measured is in `measurements`, on what in `datasets`, through what in `systems`; `table` makes ratios of
it, as Markdown and as JSON. The pixels of the `images` view are read beside zarr-python: `images`,
`image_arrays` and `image_reader`. Figures of different machines, or of different runs on a busy one,
cannot be compared: ratios can.
"""
