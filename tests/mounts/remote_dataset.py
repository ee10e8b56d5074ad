"""A dataset with an array of each kind, and the servers that a mount of it may come from.

`write_core` writes what every store can hold; `write_dataset` adds what only keys can: `concat-parts`, a
`suffix` encoding and Zarr v2.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import google_crc32c
import icechunk
import numpy as np
import zarr
from builders.documents import array, concat_parts, suffix_keys
from builders.folders import files_below, write_files, zip_folder
from builders.http_server import serving_http
from builders.images_view import pyramid
from builders.object_server import ObjectServer, TestBucket

CORE = ("plain", "sharded", "sparse", "scalar", "p")
"""The nodes of `write_core`."""


@dataclass(frozen=True)
class Source:
    """What is mounted, and the options for it."""

    url: str
    options: Sequence[str] = ()


def write_core(store: Any) -> None:
    """Arrays that are plain, in shards, with absent chunks, and without dimensions; a pyramid."""
    zarr.create_group(store)
    plain = zarr.create_array(store, name="plain", shape=(50, 60), chunks=(25, 20), dtype="uint16")
    plain[...] = pixels()
    sharded = zarr.create_array(
        store, name="sharded", shape=(50, 60), shards=(50, 40), chunks=(25, 20), dtype="uint16"
    )
    sharded[...] = pixels()
    sparse = zarr.create_array(
        store, name="sparse", shape=(30, 30), chunks=(10, 10), dtype="uint8", fill_value=7
    )
    sparse[:10, 10:20] = 1
    zarr.create_array(store, name="scalar", shape=(), dtype="float32")[...] = 1.5
    pyramid(store)


def write_dataset(folder: Path) -> None:
    """Write it as a group of Zarr v3 with consolidated metadata; the group `old` is of Zarr v2."""
    write_core(folder)
    chunks = {f"{row}/{column}": bytes([row, column, 3, 4]) for row in (0, 1) for column in (0, 1)}
    checksums = {
        key: google_crc32c.value(data).to_bytes(4, "little") for key, data in chunks.items()
    }
    transformers = [concat_parts("", (".crc32c", 4))]
    codecs = [{"name": "bytes"}, {"name": "crc32c"}]
    write_files(
        folder,
        {
            "parts/zarr.json": array(transformers=transformers, codecs=codecs),
            **{f"parts/c/{key}": data for key, data in chunks.items()},
            **{f"parts/c/{key}.crc32c": data for key, data in checksums.items()},
            "suffix/zarr.json": array(keys=suffix_keys(".raw")),
            **{f"suffix/c/{key}.raw": data for key, data in chunks.items()},
        },
    )
    documents = {
        key.removesuffix("/zarr.json"): json.loads(data)
        for key, data in files_below(folder).items()
        if key.endswith("/zarr.json")
    }
    root = json.loads((folder / "zarr.json").read_bytes())
    root["consolidated_metadata"] = {
        "kind": "inline",
        "must_understand": False,
        "metadata": documents,
    }
    (folder / "zarr.json").write_text(json.dumps(root))
    zarr.create_group(folder / "old", zarr_format=2)
    old = zarr.create_array(
        folder / "old", name="v2", shape=(5, 6), chunks=(3, 3), dtype="uint8", zarr_format=2
    )
    old[...] = 9
    zarr.consolidate_metadata(folder / "old", zarr_format=2)


def pixels() -> Any:
    """The elements of `plain` and `sharded`."""
    return (np.arange(3000, dtype=np.uint16) * 21).reshape(50, 60)


SOURCES = (
    *("s3", "s3-ozx", "http-none", "http-html", "http-webdav", "http-ozx"),
    *("icechunk-file", "icechunk-s3"),
)
"""Names for `serving_source`."""


@contextmanager
def serving_source(name: str, dataset: Path, own: Path, buckets: ObjectServer) -> Iterator[Source]:
    """Serve the dataset in one of the ways of `SOURCES`; `own`: an empty folder."""
    kind, _, how = name.partition("-")
    if name == "icechunk-file":
        _commit(icechunk.local_filesystem_storage(str(own)))
        yield Source(f"icechunk+file://{own}")
    elif kind == "http":
        if how == "ozx":
            zip_folder(dataset, own / "data.ozx")
            with serving_http(own, own / "nginx") as server:
                yield Source(f"{server.url}/data.ozx")
            return
        with serving_http(dataset.parent, own, how) as server:
            yield Source(f"{server.url}/{dataset.name}")
    else:
        bucket = buckets.bucket()
        options = [
            "--endpoint-url",
            buckets.environment["AWS_ENDPOINT_URL"],
            "--region",
            "us-east-1",
        ]
        options += ["-o", "aws_access_key_id=somebody,aws_secret_access_key=secret"]
        if name == "icechunk-s3":
            _commit_to(bucket)
            yield Source(f"icechunk+{bucket.url}/repository", options)
        elif how == "ozx":
            zip_folder(dataset, own / "data.ozx")
            bucket.put("some/data.ozx", (own / "data.ozx").read_bytes())
            yield Source(f"{bucket.url}/some/data.ozx", options)
        else:
            for key, data in files_below(dataset).items():
                bucket.put(f"data/{key}", data)
            yield Source(f"{bucket.url}/data", options)


def _commit_to(bucket: TestBucket) -> None:
    environment = bucket.server.environment
    _commit(
        icechunk.s3_storage(
            bucket=bucket.name,
            prefix="repository",
            endpoint_url=environment["AWS_ENDPOINT_URL"],
            allow_http=True,
            force_path_style=True,
            region="us-east-1",
            access_key_id=environment["AWS_ACCESS_KEY_ID"],
            secret_access_key=environment["AWS_SECRET_ACCESS_KEY"],
        )
    )


def _commit(storage: icechunk.Storage) -> None:
    icechunk.set_logs_filter("error")
    session = icechunk.Repository.create(storage).writable_session("main")
    write_core(session.store)
    session.commit("written")
