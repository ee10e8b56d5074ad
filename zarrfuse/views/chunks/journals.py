"""Judges the journals of a store by the metadata of its arrays.

A journal may write the parts of its chunk. It may delete the parts of one other chunk of the array, that is
renamed, or one file beside the chunk that became it, neither a document nor a part of another chunk. So a
journal that comes with a dataset can do no harm. Used by `mounts`, `cli`, `check` and `zarr_python`, when
they open a store.
"""

from collections.abc import Sequence

from zarrfuse.errors import NotSupported
from zarrfuse.spec.chunk_keys import METADATA_NAMES
from zarrfuse.spec.concat_parts import StoredParts
from zarrfuse.spec.node import ArrayNode
from zarrfuse.spec.paths import folder_of, split
from zarrfuse.stores.base import Store
from zarrfuse.transactions.journal import Journal, Judge, Part, key_of
from zarrfuse.transactions.recovered_view import unwrapped
from zarrfuse.views.nodes import Loaded, NodeOf


def judge_of(store: Store) -> Judge:
    """The function that judges the journals of a store by its stored documents."""
    stored = unwrapped(store)
    return lambda journal: _problem(stored, journal)


def _problem(store: Store, journal: Journal) -> str | None:
    """Raises `NotSupported` where that cannot be told: the document is broken, or cannot be read."""
    owner = _owner(store, journal.key)
    if owner is not None and owner.node is None:
        raise NotSupported(
            f"the journal {key_of(journal.key)} of {journal.key} cannot be judged: {owner.error}"
        )
    node = None if owner is None else owner.node
    if owner is None or not isinstance(node, ArrayNode) or node.parts is None:
        return "is of no array whose chunks are stored in parts"
    array = f"{owner.path}/" if owner.path else ""
    chunk = journal.key.removeprefix(array)
    if node.chunk_at(chunk) is None:
        return f"is of no chunk of {owner.path or 'the root array'}"
    stored = {journal.key + leaf.key_suffix for leaf in node.parts.leaves}
    others = [part for part in journal.parts if part.key not in stored]
    folder = folder_of(journal.key)
    is_whole = {part.key for part in journal.parts if part.temporary is not None} == stored
    if is_whole and _are_another_chunk(node, node.parts, others, array):
        return None
    for number, part in enumerate(others):
        above, name = split(part.key)
        is_loose = (
            part.temporary is None
            and not number
            and above == folder
            and name not in METADATA_NAMES
            and not _is_of_a_chunk(node, node.parts, part.key.removeprefix(array))
        )
        if not is_loose:
            return f"names {part.key}, which is no part of that chunk"
    return None


def _are_another_chunk(
    node: ArrayNode, parts: StoredParts, others: Sequence[Part], array: str
) -> bool:
    """Whether they are all parts of a chunk of the array, which is renamed: they are deleted."""
    if not others:
        return False
    keys = {part.key for part in others}
    return any(
        node.chunk_at(chunk) is not None
        and keys == {array + chunk + leaf.key_suffix for leaf in parts.leaves}
        for chunk, _ in parts.candidates(others[0].key.removeprefix(array))
    )


def _owner(store: Store, key: str) -> Loaded | None:
    """The nearest node above a key."""
    folder = key
    while folder:
        folder = folder_of(folder)
        loaded = NodeOf(store, folder, 0, _unsaid).get()
        if loaded is not None:
            return loaded
    return None


def _is_of_a_chunk(node: ArrayNode, parts: StoredParts, key: str) -> bool:
    if node.chunk_at(key) is not None:
        return True
    return any(node.chunk_at(chunk) is not None for chunk, _ in parts.candidates(key))


def _unsaid(problem: str, state: object) -> None:
    """Who looks at the array is told."""
