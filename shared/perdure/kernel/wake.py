"""What every commit to a world does beside its own work: log entry, chain, wake hint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from perdure.kernel.errors import (
    NotFound,
    PerdureError,
    WorldClosing,
    WorldDestroyed,
    WorldMoved,
    WorldMoving,
)
from perdure.kernel.ids import Instant, Seq
from perdure.kernel.log import EntryKind, LogEntry
from perdure.kernel.places import MINUTE_MS, WorldRef, wake_sort
from perdure.kernel.records import Head, Status, head_key
from perdure.kernel.upkeep import Wake, wake_key
from perdure.kernel.view import Removed, View, Write

UNREAD_MS: Final = MINUTE_MS
"""A log entry waits at most so long before a consumer is woken for it."""


INACTIVE: Final[Mapping[Status, type[PerdureError]]] = {
    "closing": WorldClosing,
    "destroyed": WorldDestroyed,
    "moving": WorldMoving,
    "moved": WorldMoved,
}
"""Which refusal a status that is not active comes to."""


def existing_head(view: View, ref: WorldRef) -> Head:
    """Return the head of a world that exists. Raises NotFound."""
    head = view.get(head_key(ref.partition))
    if head is None:
        raise NotFound(expected="a world that exists", found=f"no world {ref.world!r}")
    return head


def glimpsed_head(view: View, ref: WorldRef) -> Head:
    """Return the head without conditioning on it. Raises NotFound."""
    head = view.peek(head_key(ref.partition))
    return existing_head(view, ref) if head is None else head


def active_head(view: View, ref: WorldRef) -> Head:
    """Return the head of an active world.

    Raises: NotFound, WorldClosing, WorldDestroyed, WorldMoving, WorldMoved.
    """
    head = existing_head(view, ref)
    check_active(head, ref)
    return head


def check_active(head: Head, ref: WorldRef) -> None:
    """Refuse a world that is not active.

    Raises: WorldClosing, WorldDestroyed, WorldMoving, WorldMoved.
    """
    if head.status != "active":
        raise INACTIVE[head.status](
            expected="an active world", found=f"{ref.world!r} is {head.status}"
        )


def appended(
    head: Head,
    kind: EntryKind,
    facts: dict[str, Any],
    now: Instant,
    *,
    payload: bytes = b"null",
    payload_digest: str = "",
    **changes: Any,
) -> tuple[Head, LogEntry]:
    """Return the head with ``changes`` and one more log entry, and the entry."""
    entry = LogEntry(
        partition=head.partition,
        seq=Seq(head.seq + 1),
        at=now,
        kind=kind,
        facts=facts,
        payload=payload,
        payload_digest=payload_digest,
        previous=head.log_digest,
    )
    return _changed(head, seq=entry.seq, log_digest=entry.digest, **changes), entry


def _changed(head: Head, **changes: Any) -> Head:
    """Return what `dataclasses.replace` would: without a look at each of the fields that stay."""
    values = head.__dict__
    assert changes.keys() <= values.keys(), f"a head has no {changes.keys() - values.keys()}"
    after = object.__new__(Head)
    object.__setattr__(after, "partition", head.partition)  # the one field that has a slot
    after.__dict__.update(values, **changes)
    return after


def woken(view: View, head: Head, ref: WorldRef, at: Instant) -> tuple[Head, tuple[Write, ...]]:
    """Let the world be looked at by ``at``: lower ``wake_at`` and leave a hint, if need be.

    A hint for a later minute stays behind; whoever finds it sees that the head disagrees.
    So one may lie already where the new one goes. Raises Missing.
    """
    if head.wake_at is not None and head.wake_at // MINUTE_MS <= at // MINUTE_MS:
        return head, ()
    return replace(head, wake_at=at), hinted(view, ref, at)


def moved_hint(
    view: View, head: Head, ref: WorldRef, hint: str, wanted: Instant | None
) -> tuple[Head, tuple[Write, ...]]:
    """Let a hint that was found be at ``wanted`` from now on, or nowhere if that is None.

    A hint leaves only together with a write of the head, so that nobody's lowering of
    ``wake_at`` can be lost: the head is to be written whatever else happens. Raises Missing.
    """
    found = view.get(wake_key(ref, hint))
    sort = None if wanted is None else wake_sort(wanted, ref)
    writes: list[Write] = []
    if found is not None and found.sort != sort:
        writes.append(Removed(found.key))
    if wanted is not None:
        writes += hinted(view, ref, wanted)
    return replace(head, wake_at=wanted), tuple(writes)


def hinted(view: View, ref: WorldRef, at: Instant) -> tuple[Write, ...]:
    """Return the hint for ``at`` as a write, unless it lies there already. Raises Missing."""
    hint = Wake(
        partition=ref.wake, sort=wake_sort(at, ref), storage=ref.storage, world=ref.world, at=at
    )
    return () if view.get(hint.key) is not None else (hint,)
