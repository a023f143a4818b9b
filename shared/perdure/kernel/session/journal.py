"""The journal: how every commit of a session adds its frames, whoever writes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from perdure.kernel import limits
from perdure.kernel.errors import (
    NewerWriter,
    NotFound,
    RetainedSessionTooLarge,
    SessionTooLarge,
)
from perdure.kernel.floor import Floor, check_features, floor_key
from perdure.kernel.ids import Instant, Partition, Seq, Token
from perdure.kernel.seen import SeenInPart
from perdure.kernel.session.features import FEATURES
from perdure.kernel.session.frames import Entry, Frame, Prepared, features_of, framed, sealed
from perdure.kernel.session.records import (
    Session,
    SessionHead,
    SessionRef,
    hint_of,
    session_head_key,
    session_key,
)
from perdure.kernel.view import View, Write


@dataclass(frozen=True, slots=True)
class SessionRequest:
    """Base of the requests that the head of one session orders."""

    ref: SessionRef

    once: ClassVar[bool] = False

    @property
    def stream(self) -> Partition:
        return self.ref.partition


def existing(view: View, ref: SessionRef) -> tuple[Session, SessionHead]:
    """Return identity and head of a session, and condition the commit on the head.

    Raises: NotFound; NewerWriter if a newer version wrote to its journal.
    """
    view.require(keys=(session_head_key(ref.partition),), peeks=(session_key(ref),))
    session = view.peek(session_key(ref))
    head = view.get(session_head_key(ref.partition))
    session, head = whole_session(ref, session, head)
    check_requires(head)
    return session, head


def whole_session(
    ref: SessionRef, session: Session | None, head: SessionHead | None
) -> tuple[Session, SessionHead]:
    """Return identity and head if there are both.

    Raises: NotFound; SeenInPart if only one of the two is there.
    """
    if session is not None and head is not None:
        return session, head
    unknown = NotFound(expected="a session that exists", found=f"no session {ref.session!r}")
    if session is None and head is None:
        raise unknown
    raise SeenInPart((session_key(ref), session_head_key(ref.partition)), unknown)


def check_requires(head: SessionHead) -> None:
    """Refuse a journal with features that this version does not know. Raises NewerWriter."""
    unknown = sorted(set(head.requires) - FEATURES)
    if unknown:
        raise NewerWriter(
            expected="a journal without features that this version does not know",
            found=", ".join(unknown),
        )


@dataclass(frozen=True, slots=True)
class Added:
    """A head with frames added, and what must be written with it."""

    head: SessionHead
    frames: tuple[Frame, ...]
    writes: tuple[Write, ...]
    """The entry, and the floor if a feature is new to the storage. Not the head."""


def added(
    view: View,
    session: Session,
    head: SessionHead,
    facts: Sequence[Prepared],
    *,
    append: Token,
    now: Instant,
    may_use_reserve: bool = False,
) -> Added:
    """Add frames to a journal.

    ``may_use_reserve`` is for what closes a run: it may fill the journal up to its ceiling.
    Raises: SessionTooLarge kinds; NewerSchema for a floor of a newer version.
    """
    frames: list[Frame] = []
    seq, previous = head.seq, sealed(head.digest, now, append)
    for each in facts:
        seq = Seq(seq + 1)
        frame = framed(
            each, lineage=head.lineage, previous=previous, seq=seq, fence=head.fence.epoch
        )
        frames.append(frame)
        previous = frame.digest
    size = sum(each.size for each in facts)
    _check_room(session, head, size, may_use_reserve=may_use_reserve)
    entry = Entry(
        partition=head.partition,
        at=now,
        append=append,
        previous=head.digest,
        frames=tuple(frames),
    )
    new = features_of(frames) - set(head.requires)
    after = replace(
        head,
        seq=seq,
        digest=previous,
        bytes=head.bytes + size,
        requires=tuple(sorted({*head.requires, *new})),
    )
    floor = _raised_floor(view, session.ref, new) if new else ()
    return Added(after, tuple(frames), (entry, *floor))


def _raised_floor(view: View, ref: SessionRef, features: frozenset[str]) -> tuple[Write, ...]:
    """Name features in the storage's floor, in the very commit that first needs them."""
    found = view.get(floor_key(ref.catalog))
    floor = Floor(partition=ref.catalog) if found is None else found
    check_features(floor)
    if features <= set(floor.features):
        return ()
    return (replace(floor, features=tuple(sorted({*floor.features, *features}))),)


def _check_room(session: Session, head: SessionHead, size: int, *, may_use_reserve: bool) -> None:
    room = session.ceiling_bytes - (0 if may_use_reserve else limits.CLOSE_OUT_BYTES)
    if head.bytes + size > room:
        kind = RetainedSessionTooLarge if session.retained else SessionTooLarge
        raise kind(
            expected=f"a journal of at most {room} bytes, with what must be left to end a run",
            found=f"{head.bytes} and {size} more",
        )


def nudged(
    view: View, ref: SessionRef, head: SessionHead, at: Instant
) -> tuple[SessionHead, tuple[Write, ...]]:
    """Let the session be found by whoever looks for work, if it is not already."""
    if head.hint is not None:
        return head, ()
    hint = hint_of(ref, at)
    lying = view.get(hint.key)
    return replace(head, hint=hint.sort), () if lying is not None else (hint,)


def payload_name(ref: SessionRef, sha256: str) -> str:
    """Name the object of a payload."""
    _, storage, session = ref.partition.split("/")
    return f"sessions/s_{storage}/s_{session}/{sha256}"
