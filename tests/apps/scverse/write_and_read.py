"""Writes stores with anndata, mudata and spatialdata, and reads them in three ways.

    python write_and_read.py FOLDER MOUNT

FOLDER is where the stores are written, MOUNT shows it in the view `plain`. Printed is JSON: by store and
way (`direct`, `mount`, `open_store`) all that was read, as text, or what was raised. spatialdata takes
paths alone: over `open_store` its store is read by zarr-python, to be compared with `arrays`. Runs in an
environment of its own: these packages need other versions than the tests have.
"""

import json
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

warnings.simplefilter("ignore")

import anndata as ad  # noqa: E402
import mudata as md  # noqa: E402
import numpy as np  # noqa: E402
import pandas as pd  # noqa: E402
import scipy.sparse as sp  # noqa: E402
import spatialdata as sd  # noqa: E402
import zarr  # noqa: E402
from spatialdata import models  # noqa: E402
from spatialdata._io.format import SpatialDataContainerFormats  # noqa: E402

import zarrfuse  # noqa: E402

# -- what is written


def cells(*, records: bool = False) -> ad.AnnData:
    """Five cells and four genes, with an element of every type.

    `records`: with an array of records too, which the `plain` view leaves as Zarr v2.
    """
    table = ad.AnnData(
        X=sp.random(5, 4, 0.5, format="csr", random_state=0, dtype=np.float32),
        obs=pd.DataFrame(
            {
                "category": pd.Categorical(["a", "b", "a", None, "c"]),
                "text": ["x", "", "é", "z", "w"],
                "nullable": pd.array([1, None, 3, 4, 5], dtype="Int64"),
                "flag": [True, False, True, False, True],
            },
            index=[f"cell {n}" for n in range(5)],
        ),
        var=pd.DataFrame({"gene": ["g1", "g2", "g3", "g4"]}, index=["1", "2", "3", "4"]),
    )
    table.layers["dense"] = np.arange(20.0).reshape(5, 4)
    table.layers["columns"] = sp.csc_matrix(table.X)
    table.obsm["frame"] = pd.DataFrame({"q": [1.0, 2, 3, 4, 5]}, index=table.obs_names)
    table.obsp["distances"] = sp.eye(5, format="csr")
    table.uns["of_all_types"] = {
        "text": "a text",
        "number": 1.5,
        "texts": np.array(["a", "déjà"]),
        "bytes": np.array([b"a", b"bc"]),
        "nested": {"deep": np.arange(3)},
    }
    if records:
        fields = [("i", "i4"), ("text", "U3")]
        table.uns["records"] = np.array([(1, "a"), (2, "bc")], dtype=fields)
    return table


def tissue() -> sd.SpatialData:
    """A pyramid, labels, points, shapes and a table."""
    table = cells(records=True)
    table.obs["region"] = pd.Categorical(["labels"] * 5)
    table.obs["instance"] = range(1, 6)
    labels = np.zeros((16, 16), np.int16)
    labels[0, :5] = range(1, 6)
    pixels = np.arange(3 * 16 * 16, dtype=np.uint8).reshape(3, 16, 16)
    points = np.arange(10.0).reshape(5, 2)
    keys = {"region": "labels", "region_key": "region", "instance_key": "instance"}
    return sd.SpatialData(
        images={
            "image": models.Image2DModel.parse(pixels, dims=("c", "y", "x"), scale_factors=[2])
        },
        labels={"labels": models.Labels2DModel.parse(labels, dims=("y", "x"))},
        points={"points": models.PointsModel.parse(points)},
        shapes={"circles": models.ShapesModel.parse(points, geometry=0, radius=1.0)},
        tables={"table": models.TableModel.parse(table, **keys)},
    )


Reader = Callable[[Any], Any]
"""Takes a path or a store."""


def write(folder: Path) -> Iterator[tuple[str, Reader]]:
    """The name of each store in the folder, and what reads it."""
    for version in (2, 3):
        ad.settings.zarr_write_format = version
        cells().write_zarr(folder / f"anndata v{version}.zarr")
        yield f"anndata v{version}.zarr", ad.read_zarr
        both = md.MuData({"rna": cells(), "protein": cells(records=version == 2)})
        both.write_zarr(folder / f"mudata v{version}.zarr")
        yield f"mudata v{version}.zarr", md.read_zarr
    ad.settings.zarr_write_format = 2
    cells(records=True).write_zarr(folder / "records v2.zarr")
    yield "records v2.zarr", ad.read_zarr
    for version, format_ in SpatialDataContainerFormats.items():
        name = f"spatialdata {version}.zarr"
        tissue().write(folder / name, sdata_formats=format_)
        yield name, sd.read_zarr


# -- what is read


def said(value: Any) -> Any:
    """All that there is in a value, as JSON."""
    if isinstance(value, sd.SpatialData):
        return {name: said(element) for _, name, element in value.gen_elements()}
    if isinstance(value, md.MuData):
        return {name: said(table) for name, table in value.mod.items()} | _axes(value)
    if isinstance(value, ad.AnnData):
        return {"X": said(value.X), **_axes(value), "uns": said(value.uns)} | {
            name: said(dict(getattr(value, name))) for name in ("layers", "obsm", "varm", "obsp")
        }
    if hasattr(value, "compute") and not hasattr(value, "dims"):  # a dask DataFrame
        return said(value.compute())
    if isinstance(value, pd.DataFrame):
        columns = {str(name): [str(value[name].dtype), str(list(value[name]))] for name in value}
        return {"index": [str(value.index.dtype), str(list(value.index))], **columns}
    if sp.issparse(value):
        return [type(value).__name__, said(value.toarray())]
    if hasattr(value, "subtree"):  # a pyramid
        return {node.path: said(dict(node.data_vars)) for node in value.subtree}
    if isinstance(value, Mapping):
        return {str(name): said(item) for name, item in value.items()}
    array = np.asarray(value)
    return [str(array.dtype), array.shape, str(array.tolist())]


def _axes(table: Any) -> dict[str, Any]:
    return {"obs": said(table.obs), "var": said(table.var)}


def arrays(store: Any) -> dict[str, Any]:
    """The elements and attributes of all arrays, and the attributes of all groups."""
    found: dict[str, Any] = {}
    for path, node in sorted(zarr.open_group(store, mode="r").members(max_depth=None)):
        is_array = isinstance(node, zarr.Array)
        found[path] = [dict(node.attrs), str(np.asarray(node[...]).tolist()) if is_array else None]
    return found


def ways(reader: Reader, path: Path, mounted: Path) -> Iterator[tuple[str, Reader, Any]]:
    """What reads a store, and what it is given."""
    yield "direct", reader, path
    yield "mount", reader, mounted
    if reader is sd.read_zarr:
        yield "arrays", arrays, path
        yield "arrays mount", arrays, mounted
        reader = arrays
    yield "open_store", reader, zarrfuse.open_store(path)


def main(folder: Path, mount: Path) -> None:
    found: dict[str, dict[str, Any]] = {}
    for name, reader in list(write(folder)):
        found[name] = {}
        for way, read, source in ways(reader, folder / name, mount / name):
            try:
                read_back = read(source)
                found[name][way] = read_back if read is arrays else said(read_back)
            except Exception as error:
                found[name][way] = f"{type(error).__name__}: {error}"
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
