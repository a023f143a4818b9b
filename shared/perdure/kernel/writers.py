"""Writers: who may change a world, as mode, fence and application say."""

from __future__ import annotations

from typing import Final, get_args

from perdure.kernel import limits
from perdure.kernel.errors import Invalid, NotPermitted, NotResumable, UnknownWriterMode, WrongApp
from perdure.kernel.ids import Holder, checked_id
from perdure.kernel.places import WorldRef
from perdure.kernel.records import Head, World, WriterMode
from perdure.kernel.shown import shown

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


def check_grip(holder: str, lease_ms: int) -> None:
    """Refuse a holder or a lease beyond the limits. Raises InvalidId, Invalid."""
    checked_id(holder, what="a holder", bytes_max=limits.HOLDER_BYTES_MAX)
    check_lease(lease_ms)


def check_lease(lease_ms: int) -> None:
    """Refuse a lease beyond the limits. Raises Invalid."""
    if not 1 <= lease_ms <= limits.LEASE_MS_MAX:
        raise Invalid(expected=f"a lease of 1 to {limits.LEASE_MS_MAX} ms", found=f"{lease_ms} ms")


def check_app(world: World, app: str) -> None:
    """Refuse a world of another application, of which this one knows nothing. Raises WrongApp."""
    if world.app not in {"", app}:
        raise WrongApp(
            expected=f"application {world.app!r}, for which world {world.world!r} was made",
            found=repr(app),
        )


def check_mode(mode: str) -> None:
    """Refuse a writer mode that this version does not know. Raises UnknownWriterMode."""
    if mode not in WRITER_MODES:
        raise UnknownWriterMode(
            expected=f"a writer mode of {', '.join(WRITER_MODES)}", found=shown(mode)
        )


def is_private(head: Head) -> bool:
    return head.writer_mode == "cleanup_only"
