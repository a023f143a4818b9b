"""Dispatch: which worlds have something to do now, found in their hints. Needs no Arrow."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Final

from perdure.kernel.canonical import digest
from perdure.kernel.errors import PerdureError
from perdure.kernel.ids import Epoch, Instant, StorageId
from perdure.kernel.places import WAKE_SHARDS, WorldRef
from perdure.kernel.rest import Agenda, ReadAgenda, Rest, Wakes
from perdure.kernel.upkeep import Wake
from perdure.runtime.ports import Executes

LOOKS_AT_ONCE: Final = 16
"""Worlds that are looked at side by side. Source: threads of the DynamoDB store."""


@dataclass(frozen=True, slots=True)
class Due:
    """A world that has something to do, and what it was found waiting for."""

    ref: WorldRef
    serves: Instant | None
    """The time of its schedule; None if its end is due instead, as that of an abandoned world."""

    epoch: Epoch = Epoch(0)
    """That of its fence: another one says that a writer has tried."""

    hint: str | None = None
    """The hint that it was found by, to be laid to rest by whoever does the work."""

    @property
    def attempt(self) -> str:
        """Name what is to be done, until a writer has tried: a queue drops what it knows."""
        serves = "" if self.serves is None else str(self.serves)
        parts = (self.ref.partition, serves, str(self.epoch))
        return digest("perdure.due.v1", *(part.encode() for part in parts))


@dataclass(frozen=True, slots=True)
class Found:
    """What one look came to."""

    due: tuple[Due, ...]
    stalled: int
    """Worlds whose every writer died; they are tried again only now and then."""

    oldest_due_ms: int
    """How late the latest of the due worlds is."""

    failed: tuple[tuple[WorldRef, PerdureError], ...] = ()
    done: bool = True
    """All hints were looked at; else time ran out, and the next look finds the rest."""


@dataclass(frozen=True, slots=True)
class _Seen:
    hint: Wake
    ref: WorldRef
    agenda: Agenda | PerdureError


async def look(
    authority: Executes,
    storage: StorageId,
    *,
    now: Callable[[], Instant],
    go_on: Callable[[], bool],
) -> Found:
    """Find every world of a storage that is due, and lay to rest the hints of all others.

    A hint is never believed: the world's own head and schedule say whether it is due. A table
    may hold the hints of other storages, too; these are left to their own dispatch.
    """
    due: dict[WorldRef, Due] = {}
    failed: list[tuple[WorldRef, PerdureError]] = []
    stalled, oldest_ms, done = set[WorldRef](), 0, True
    async for hints in _pages(authority, now):
        if not go_on():
            done = False
            break
        for seen in await _agendas(authority, storage, hints):
            if isinstance(seen.agenda, PerdureError):
                failed.append((seen.ref, seen.agenda))
                continue
            found = _due(seen, seen.agenda)
            if found is not None:
                due.setdefault(found.ref, found)
                oldest_ms = max(oldest_ms, now() - (found.serves or now()))
                stalled |= {found.ref} if seen.agenda.stalled else set()
    return Found(tuple(due.values()), len(stalled), oldest_ms, tuple(failed), done)


async def _pages(authority: Executes, now: Callable[[], Instant]) -> AsyncIterator[list[Wake]]:
    """Yield the hints that are due, shard by shard, a page at a time."""
    for shard in range(WAKE_SHARDS):
        request = Wakes(shard, now())
        while True:
            hints = await authority.execute(request)
            if hints:
                yield list(hints)
            if len(hints) < request.limit:
                break
            request = Wakes(shard, request.through, beyond=hints[-1].sort)


async def _agendas(authority: Executes, storage: StorageId, hints: list[Wake]) -> list[_Seen]:
    gate = asyncio.Semaphore(LOOKS_AT_ONCE)

    async def seen(hint: Wake) -> _Seen:
        ref = WorldRef(hint.storage, hint.world)
        async with gate:
            try:
                agenda = await authority.execute(ReadAgenda(ref))
                if _due(_Seen(hint, ref, agenda), agenda) is None:
                    await authority.execute(Rest(ref, hint.sort))
            except PerdureError as error:  # of this world: the others go on
                return _Seen(hint, ref, error)
        return _Seen(hint, ref, agenda)

    ours = [hint for hint in hints if hint.storage == storage]
    return list(await asyncio.gather(*(seen(hint) for hint in ours)))


def _due(seen: _Seen, agenda: Agenda) -> Due | None:
    if agenda.tick_due is None and not agenda.abandoned:
        return None
    return Due(seen.ref, agenda.tick_due, agenda.epoch, seen.hint.sort)
