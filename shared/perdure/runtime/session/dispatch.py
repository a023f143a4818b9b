"""Dispatch of sessions: which have something to do now, found in their hints."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial

from perdure.kernel.canonical import digest
from perdure.kernel.ids import Instant, StorageId
from perdure.kernel.session.create import DescribeSession, SessionInfo
from perdure.kernel.session.owner import RestSession
from perdure.kernel.session.records import SessionRef, SessionWake
from perdure.kernel.session.wakes import SessionWakes
from perdure.runtime.hints import Looked, Looking
from perdure.runtime.ports import Executes


@dataclass(frozen=True, slots=True)
class DueSession:
    """A session that may have something to do."""

    ref: SessionRef
    once: str
    """What a queue is to drop a second message by."""

    hint: str | None = None
    """The hint that it was found by, to be laid to rest by whoever does the work."""


FoundSessions = Looked[SessionRef, DueSession]
"""What one look came to."""

Tell = Callable[[Sequence[DueSession]], Awaitable[None]]


async def look(
    authority: Executes,
    storage: StorageId,
    *,
    now: Callable[[], Instant],
    go_on: Callable[[], bool],
    tell: Tell,
) -> FoundSessions:
    """Find every session of a storage that is due, and lay to rest the hints of all others.

    A hint is never believed: the session's own head says whether it is due. ``tell`` is given
    what each page of hints has come to, before the next is looked at.
    """
    looking: Looking[SessionWake, SessionRef, DueSession] = Looking(
        ask=lambda shard, beyond: SessionWakes(shard, now(), beyond=beyond),
        is_ours=lambda hint: hint.storage == storage,
        name=lambda hint: hint.ref,
        look=partial(_due, authority),
    )
    return await looking.through(authority, now, go_on, tell)


async def _due(authority: Executes, hint: SessionWake) -> DueSession | None:
    if await authority.execute(RestSession(hint.ref, hint.sort)) != "due":
        return None
    info = await authority.execute(DescribeSession(hint.ref))
    return DueSession(hint.ref, attempt(hint.ref, info), hint.sort)


def attempt(ref: SessionRef, info: SessionInfo) -> str:
    """Name what is to be done, until somebody has tried, or sent something more."""
    parts = (ref.partition, str(info.epoch), str(info.seq))
    return digest("perdure.session.due.v1", *(part.encode() for part in parts))
