"""Hints: the worlds that have something to do, looked at a page at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

from perdure.kernel.errors import PerdureError
from perdure.kernel.ids import Instant, StorageId
from perdure.kernel.places import MINUTE_MS, WAKE_SHARDS, WorldRef
from perdure.kernel.rest import Agenda, ReadAgenda, Wakes
from perdure.kernel.upkeep import Wake
from perdure.kernel.view import Request
from perdure.runtime.ports import Executes

LOOKS_AT_ONCE: Final = 16
"""Worlds that are looked at side by side. Source: threads of the DynamoDB store."""


class Hint(Protocol):
    """A record that says where something may be to do."""

    @property
    def sort(self) -> str: ...


HintT = TypeVar("HintT", bound=Hint)
HintT_co = TypeVar("HintT_co", bound=Hint, covariant=True)
NameT = TypeVar("NameT", bound=Hashable)
DueT = TypeVar("DueT")


class Listing(Request[tuple[HintT_co, ...]], Protocol[HintT_co]):
    """A request for one page of hints."""

    @property
    def limit(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Looked(Generic[NameT, DueT]):
    """What one look through hints came to."""

    due: tuple[DueT, ...]
    failed: tuple[tuple[NameT, PerdureError], ...] = ()
    """What could not be looked at."""

    done: bool = True
    """All hints were looked at; else time ran out, and the next look finds the rest."""


@dataclass(frozen=True, slots=True)
class Looking(Generic[HintT, NameT, DueT]):
    """How hints of one kind are looked through."""

    ask: Callable[[int, str], Listing[HintT]]
    """Lists a page of hints of one shard that lie beyond one of them."""

    is_ours: Callable[[HintT], bool]
    """A table may hold the hints of other storages, too; these are left alone."""

    name: Callable[[HintT], NameT]
    look: Callable[[HintT], Awaitable[DueT | None]]
    """Says what is due, by what it names itself: a hint is never believed."""

    async def through(
        self,
        authority: Executes,
        now: Callable[[], Instant],
        go_on: Callable[[], bool],
        tell: Callable[[Sequence[DueT]], Awaitable[None]],
    ) -> Looked[NameT, DueT]:
        """Find everything that is due.

        ``tell`` is given what each page of hints has come to, before the next is looked at.
        """
        due: dict[NameT, DueT] = {}
        failed: dict[NameT, PerdureError] = {}
        gate = asyncio.Semaphore(LOOKS_AT_ONCE)

        async def looked_at(hint: HintT) -> tuple[NameT, DueT | None]:
            name = self.name(hint)
            async with gate:
                try:
                    return name, await self.look(hint)
                except PerdureError as error:
                    failed[name] = error
                    return name, None

        done = True
        async for hints in pages_of(authority, now, self.ask):
            if not go_on():
                done = False
                break
            ours = [hint for hint in hints if self.is_ours(hint)]
            found = await asyncio.gather(*map(looked_at, ours))
            fresh = {name: each for name, each in found if each is not None and name not in due}
            due |= fresh
            if fresh:
                await tell(list(fresh.values()))
        return Looked(tuple(due.values()), tuple(failed.items()), done)


@dataclass(frozen=True, slots=True)
class Seen:
    """A hint, and what the world that it names says of itself, or why it says nothing."""

    hint: Wake
    ref: WorldRef
    agenda: Agenda | PerdureError


async def no_more(_: Seen) -> None:
    """Leave a world that was seen as it is."""


async def pages(authority: Executes, through: Callable[[], Instant]) -> AsyncIterator[list[Wake]]:
    """Yield the hints of worlds that lie up to a moment, shard by shard, a page at a time."""

    def ask(shard: int, beyond: str) -> Wakes:
        return Wakes(shard, through(), beyond=beyond)

    async for hints in pages_of(authority, through, ask):
        yield hints


async def pages_of(
    authority: Executes, through: Callable[[], Instant], ask: Callable[[int, str], Listing[HintT]]
) -> AsyncIterator[list[HintT]]:
    """Yield hints of any kind, shard by shard: ``ask(shard, beyond)`` lists a page of them.

    Each minute begins with another shard: who runs out of time always leaves others.
    """
    first = through() // MINUTE_MS
    for number in range(first, first + WAKE_SHARDS):
        request = ask(number % WAKE_SHARDS, "")
        while True:
            hints = await authority.execute(request)
            if hints:
                yield list(hints)
            if len(hints) < request.limit:
                break
            request = ask(number % WAKE_SHARDS, hints[-1].sort)


async def seen(
    authority: Executes,
    storage: StorageId,
    hints: Sequence[Wake],
    then: Callable[[Seen], Awaitable[object]] = no_more,
) -> list[Seen]:
    """Look at the worlds of a storage that hints name, and do ``then`` with each.

    A table may hold the hints of other storages, too; these are left alone. An error of one
    world, also of ``then``, keeps none of the others.
    """
    gate = asyncio.Semaphore(LOOKS_AT_ONCE)

    async def look(hint: Wake) -> Seen:
        ref = WorldRef(hint.storage, hint.world)
        async with gate:
            try:
                found = Seen(hint, ref, await authority.execute(ReadAgenda(ref)))
                await then(found)
            except PerdureError as error:
                return Seen(hint, ref, error)
        return found

    ours = [hint for hint in hints if hint.storage == storage]
    return list(await asyncio.gather(*(look(hint) for hint in ours)))
