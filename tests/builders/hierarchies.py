"""zarr-python's state machine of hierarchies, with names that a node can have here."""

from zarr.testing.stateful import ZarrHierarchyStateMachine

from zarrfuse.spec.chunk_keys import METADATA_NAMES


class Hierarchies(ZarrHierarchyStateMachine):
    """Random changes. No node has the name of a document, which hypothesis finds in our code."""

    def can_add(self, path: str) -> bool:
        """Whether a node is added at a path."""
        return path.rpartition("/")[2] not in METADATA_NAMES and super().can_add(path)
