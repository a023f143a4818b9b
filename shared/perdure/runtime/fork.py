"""Forks: find what a world holds at one moment, and bring its copy into the catalog."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from perdure.kernel import limits
from perdure.kernel.caller import LOCAL, Caller
from perdure.kernel.create import Identity, WorldInfo, checked_pace
from perdure.kernel.errors import Contended, Invalid
from perdure.kernel.fork import Birth, FindFork
from perdure.kernel.fork_source import (
    PENDINGS,
    READ_PAGES_MAX,
    Copy,
    FindSource,
    Pending,
    Places,
    ReadGroups,
    ReadPages,
    Seen,
    Source,
    batches_of,
    check_tick,
    copied,
)
from perdure.kernel.ids import RunId, Tick
from perdure.kernel.lineage import FindAncestors
from perdure.kernel.pace import MissedTicks
from perdure.kernel.places import WorldRef
from perdure.kernel.ranges import Ranges
from perdure.kernel.reading import FindWorld
from perdure.kernel.shown import shown
from perdure.runtime.ports import Executes

T = TypeVar("T")

FORK_TRIES: Final = 5
"""Times a fork looks at its source until it sees all that is open there."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What is asked for: a fork of ``source`` under a name, and an id chosen beforehand."""

    source: WorldRef
    child: WorldRef
    name: str
    run: RunId
    pending: Pending = "copy"
    at_tick: Tick | None = None
    every_ms: int | None = None
    missed: MissedTicks = "coalesce"
    by: Caller = LOCAL

    def identity(self, kind: str) -> Identity:
        """Return what must be the same when it is asked for again. Raises Invalid kinds."""
        if self.pending not in PENDINGS:
            raise Invalid(
                expected=f"pending to be {' or '.join(PENDINGS)}", found=shown(self.pending)
            )
        if self.at_tick is not None and self.at_tick < 0:
            raise Invalid(expected="a tick from 0 upwards", found=str(self.at_tick))
        checked_pace(self.every_ms, self.missed)
        kin = self.source.world
        return Identity(self.child, self.name, kind, "resumable", kin).checked()


async def fork(
    authority: Executes, wish: Wish, *, pause: Callable[[float], Awaitable[None]]
) -> WorldInfo:
    """Fork a world at its published tick, or return the fork that was made under this id.

    Raises: Invalid kinds, NotFound, NotPublished, Conflict, NameTaken, TooManyPending,
    NotResumable, CorruptLineage, and what the status of either world says; Contended.
    """
    source = await authority.execute(FindWorld(wish.source))
    identity = wish.identity(source.world.kind)
    known = await authority.execute(FindFork(identity, source.world.run, wish.at_tick))
    if known is not None:
        return known
    copy = await copy_of(authority, wish.source, wish.pending, wish.at_tick, pause=pause)
    birth = Birth(identity, copy, wish.run, wish.pending, wish.every_ms, wish.missed, wish.by)
    return await authority.execute(birth)


async def copy_of(
    authority: Executes,
    source: WorldRef,
    pending: Pending,
    at_tick: Tick | None,
    *,
    pause: Callable[[float], Awaitable[None]],
) -> Copy:
    """Read what a fork takes over, all of one moment. Raises Contended after a few tries."""
    state = await authority.execute(FindWorld(source))
    await authority.execute(FindAncestors(state.world, state.published))
    for attempt in range(FORK_TRIES):
        if attempt:
            await pause(0.005 * 2**attempt)
        try:
            found = await authority.execute(FindSource(source))
            seen = await _seen(authority, source, found, pending)
            check_tick(source, seen.head, at_tick)
            return copied(found.world, seen, await _groups(authority, seen), pending)
        except Contended:
            continue
    raise Contended(
        expected=f"all that is open in world {source.world!r} in one look at it",
        found=f"less in {FORK_TRIES} looks: commits are running",
    )


async def _seen(authority: Executes, source: WorldRef, found: Source, pending: Pending) -> Seen:
    """Read pages with the head. Raises Contended if they are not of one moment."""
    names = sorted(found.names) if pending == "copy" else []
    parts: list[Seen] = []
    for chunk in list(_chunks(names, READ_PAGES_MAX)) or [[]]:
        parts.append(await authority.execute(ReadPages(source, tuple(chunk))))
        if parts[-1].head.seq != parts[0].head.seq:
            raise Contended(
                expected=f"head of seq {parts[0].head.seq}", found=f"seq {parts[-1].head.seq}"
            )
    pages = tuple(page for part in parts for page in part.pages)
    return Seen(parts[0].head, pages, parts[0].records)


async def _groups(authority: Executes, seen: Seen) -> dict[Places, list[Ranges]]:
    groups: dict[Places, list[Ranges]] = {}
    for chunk in _chunks(batches_of(seen.pages), limits.LOAD_KEYS_MAX):
        groups |= await authority.execute(ReadGroups(tuple(chunk)))
    return groups


def _chunks(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
