"""How work, items, results and exceptions travel between processes: pickled, as bytes.

Used by `processes` and `dask_cluster`. What carries the bytes unpickles none of them, so a function that
cannot be imported, or an exception that cannot be pickled, does not end the process that works.
"""

import pickle
import traceback
from collections.abc import Callable
from typing import Any

from zarrfuse.errors import JobsFailed, is_expected, text_of


def packed(value: object) -> bytes:
    """Work, or an item, as bytes. Raises what `pickle` raises."""
    return pickle.dumps(value, pickle.HIGHEST_PROTOCOL)


def attempted(work: bytes, item: bytes) -> bytes:
    """The outcome of this work on this item: its result, or what it raised. For `result_of`."""
    try:
        run: Callable[[Any], Any] = pickle.loads(work)
        return packed((run(pickle.loads(item)), None))
    except Exception as error:
        return packed((None, _portable(error)))


def result_of(outcome: bytes) -> Any:
    """The result in an outcome. Raises what the work raised."""
    result, error = pickle.loads(outcome)
    if error is not None:
        raise error
    return result


def _portable(error: Exception) -> Exception:
    """`error`, or a `JobsFailed` with its message if it cannot be pickled.

    A traceback is not pickled, so an exception that nobody expects gets it as a note.
    """
    told = "".join(traceback.format_exception(error))
    try:
        if not is_expected(error):
            error.add_note(f"\nWhere it was raised:\n{told}")
        same = type(pickle.loads(packed(error))) is type(error)
    except Exception:  # whatever pickling another library's exception raises
        same = False
    return error if same else JobsFailed(text_of(error))
