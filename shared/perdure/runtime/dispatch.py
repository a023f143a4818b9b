"""Dispatch: which worlds have something to do now, found in their hints. Needs no Arrow."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from perdure.kernel.canonical import digest
from perdure.kernel.errors import PerdureError
from perdure.kernel.ids import Epoch, Instant, StorageId
from perdure.kernel.places import WorldRef
from perdure.kernel.rest import Rest
from perdure.runtime.hints import Seen, pages, seen
from perdure.runtime.ports import Executes


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
    """Worlds that could not be looked at."""

    done: bool = True
    """All hints were looked at; else time ran out, and the next look finds the rest."""


async def nobody(_: Sequence[Due]) -> None:
    """Tell nobody of what was found."""


async def look(
    authority: Executes,
    storage: StorageId,
    *,
    now: Callable[[], Instant],
    go_on: Callable[[], bool],
    tell: Callable[[Sequence[Due]], Awaitable[None]] = nobody,
) -> Found:
    """Find every world of a storage that is due, and lay to rest the hints of all others.

    A hint is never believed: the world's own head and schedule say whether it is due.
    ``tell`` is given what each page of hints has come to, before the next is looked at.
    """
    due: dict[WorldRef, Due] = {}
    failed: dict[WorldRef, PerdureError] = {}
    stalled, oldest_ms, done = set[WorldRef](), 0, True

    async def rest(each: Seen) -> None:
        if _due(each) is None:
            await authority.execute(Rest(each.ref, each.hint.sort))

    async for hints in pages(authority, now):
        if not go_on():
            done = False
            break
        fresh: list[Due] = []
        for each in await seen(authority, storage, hints, rest):
            if isinstance(each.agenda, PerdureError):
                failed[each.ref] = each.agenda
                continue
            found = _due(each)
            if found is None or found.ref in due:
                continue
            due[found.ref] = found
            fresh.append(found)
            oldest_ms = max(oldest_ms, now() - (found.serves or now()))
            stalled |= {found.ref} if each.agenda.stalled else set()
        if fresh:
            await tell(fresh)
    return Found(tuple(due.values()), len(stalled), oldest_ms, tuple(failed.items()), done)


def _due(each: Seen) -> Due | None:
    agenda = each.agenda
    if isinstance(agenda, PerdureError) or (agenda.tick_due is None and not agenda.abandoned):
        return None
    return Due(each.ref, agenda.tick_due, agenda.epoch, each.hint.sort)
