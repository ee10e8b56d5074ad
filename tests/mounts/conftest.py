"""Tests of real mounts: a store is a folder of keys, and no process outlives its test."""

from builders.folders import stored
from builders.mounts import mountpoint
from builders.processes import no_process_left, no_process_left_by_a_module

__all__ = ["mountpoint", "no_process_left", "no_process_left_by_a_module", "stored"]
