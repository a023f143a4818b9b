"""Dispatch of sessions: which have something to do now, found in their hints."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from perdure.kernel.canonical import digest
from perdure.kernel.errors import PerdureError
from perdure.kernel.ids import Instant, StorageId
from perdure.kernel.session.create import DescribeSession, SessionInfo
from perdure.kernel.session.owner import RestSession
from perdure.kernel.session.records import SessionRef, SessionWake
from perdure.kernel.session.wakes import SessionWakes
from perdure.runtime.hints import LOOKS_AT_ONCE, pages_of
from perdure.runtime.ports import Executes


@dataclass(frozen=True, slots=True)
class DueSession:
    """A session that may have something to do."""

    ref: SessionRef
    once: str
    """What a queue is to drop a second message by."""

    hint: str | None = None
    """The hint that it was found by, to be laid to rest by whoever does the work."""


@dataclass(frozen=True, slots=True)
class FoundSessions:
    """What one look came to."""

    due: tuple[DueSession, ...]
    failed: tuple[tuple[SessionRef, PerdureError], ...] = ()
    """Sessions that could not be looked at."""

    done: bool = True
    """All hints were looked at; else time ran out, and the next look finds the rest."""


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
    due: dict[SessionRef, DueSession] = {}
    failed: dict[SessionRef, PerdureError] = {}
    gate = asyncio.Semaphore(LOOKS_AT_ONCE)

    async def looked_at(hint: SessionWake) -> DueSession | None:
        async with gate:
            try:
                return await _due(authority, hint)
            except PerdureError as error:
                failed[hint.ref] = error
                return None

    def ask(shard: int, beyond: str) -> SessionWakes:
        return SessionWakes(shard, now(), beyond=beyond)

    async for hints in pages_of(authority, now, ask):
        if not go_on():
            return FoundSessions(tuple(due.values()), tuple(failed.items()), done=False)
        # A table may hold the hints of other storages, too; these are left alone.
        ours = [hint for hint in hints if hint.storage == storage]
        found = await asyncio.gather(*map(looked_at, ours))
        fresh = [each for each in found if each is not None and each.ref not in due]
        due |= {each.ref: each for each in fresh}
        if fresh:
            await tell(fresh)
    return FoundSessions(tuple(due.values()), tuple(failed.items()))


async def _due(authority: Executes, hint: SessionWake) -> DueSession | None:
    if await authority.execute(RestSession(hint.ref, hint.sort)) != "due":
        return None
    info = await authority.execute(DescribeSession(hint.ref))
    return DueSession(hint.ref, attempt(hint.ref, info), hint.sort)


def attempt(ref: SessionRef, info: SessionInfo) -> str:
    """Name what is to be done, until somebody has tried, or sent something more."""
    parts = (ref.partition, str(info.epoch), str(info.seq))
    return digest("perdure.session.due.v1", *(part.encode() for part in parts))
