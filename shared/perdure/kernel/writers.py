"""Writers: who may change a world, as its mode and the holder of its fence say."""

from __future__ import annotations

from typing import Final, get_args

from perdure.kernel.errors import NotPermitted, NotResumable, UnknownWriterMode, shown
from perdure.kernel.ids import Holder
from perdure.kernel.places import WorldRef
from perdure.kernel.records import Head, WriterMode

WRITER_MODES: Final[tuple[str, ...]] = get_args(WriterMode)


def check_writer(head: Head, ref: WorldRef, holder: Holder | None) -> None:
    """Refuse whoever may never write a world. Raises NotResumable, UnknownWriterMode."""
    check_mode(head.writer_mode)
    if is_private(head) and holder != head.fence.holder:
        raise NotResumable(
            expected=f"the first holder of private world {ref.world!r}", found="another writer"
        )


def check_holder(head: Head, holder: Holder | None) -> None:
    """Hold what changes a private world to its holder. Raises NotPermitted, UnknownWriterMode."""
    check_mode(head.writer_mode)
    if is_private(head) and (holder is None or holder != head.fence.holder):
        raise NotPermitted(expected="the holder of a private world's fence", found="another caller")


def check_mode(mode: str) -> None:
    """Refuse a writer mode that this version does not know. Raises UnknownWriterMode."""
    if mode not in WRITER_MODES:
        raise UnknownWriterMode(
            expected=f"a writer mode of {', '.join(WRITER_MODES)}", found=shown(mode)
        )


def is_private(head: Head) -> bool:
    return head.writer_mode == "cleanup_only"
