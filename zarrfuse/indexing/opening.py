"""Chooses what a dataset is written to. Used by `run`."""

import os

from zarrfuse.config import RemoteConfig
from zarrfuse.indexing.bucket_target import BucketTarget
from zarrfuse.indexing.files import is_bucket
from zarrfuse.indexing.local_target import LocalTarget
from zarrfuse.indexing.target import Target, TargetError, Way
from zarrfuse.stores.opening import is_url, printable_source


def target_of(address: str, remote: RemoteConfig, way: Way) -> Target:
    """The dataset at a path or a URL of a bucket. Raises `TargetError`."""
    if is_bucket(address):
        return BucketTarget(address, remote, way)
    if is_url(address):
        raise TargetError(
            f"{printable_source(address)} cannot be written: give a folder or a bucket with --out"
        )
    return LocalTarget(os.path.abspath(address), way)
