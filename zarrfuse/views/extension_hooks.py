"""Calls generic extensions before a chunk is opened.

Owns what becomes of their warnings, refusals and faults. Used by `chunks`.
"""

import errno
from collections.abc import Callable, Iterable

from zarrfuse.errors import ZarrfuseError, text_of
from zarrfuse.spec.active import Active
from zarrfuse.spec.extensions import GenericExtension
from zarrfuse.spec.zep10 import BUILT_IN


def before_opening(
    acting: Iterable[Active], path: str, key: str, report: Callable[[str], None], *, wait: bool
) -> None:
    """Call each extension before the chunk `key` of the array at `path` is opened.

    Their warnings are logged. A `ZarrfuseError` of an extension is raised as it is, any other exception
    as `RuntimeError`: an `OSError` of theirs is not an error of the store. Without `wait`, raises
    `BlockingIOError` before it calls a plug-in, which may take long.
    """
    where = path or "the root array"
    for each in acting:
        if not wait and _may_take_its_time(type(each.extension)):
            raise BlockingIOError(errno.EAGAIN, "code of an extension has to be asked")
        who = f"the extension {each.listed.name} of {where}"
        try:
            warning = each.extension.opening(each.array, key)
        except ZarrfuseError as refusal:
            if refusal.errno in errno.errorcode:
                raise
            raise RuntimeError(f"{who} refuses without an errno") from refusal
        except Exception as error:
            raise RuntimeError(f"{who} fails: {text_of(error)}") from error
        if warning is not None:
            report(f"{where} {warning}")


def _may_take_its_time(kind: type[GenericExtension]) -> bool:
    return kind.opening is not GenericExtension.opening and kind not in BUILT_IN
