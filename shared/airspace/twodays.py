"""Two days out of one: the day as it was, and its fork in which an airport closes at noon."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Literal, Protocol, TypeAlias, TypeVar

from airspace.client import PATIENCE_SECONDS, PAUSE_SECONDS
from airspace.closure import Closing, Grounded, grounded
from airspace.flights import TICKS, Flight
from airspace.replay import Command, by_departure, despawn, spawn
from perdure import Unavailable
from perdure.kernel.admit import Receipt
from perdure.kernel.operations import parsed_commands
from perdure.runtime.storage import Storage, World

SOURCE_ID: Final = "day-as-it-was"
FORK_ID: Final = "day-newark-closed"

CLOSING: Final = Closing(airport="EWR", after_tick=720)
"""Newark, the busiest of the three, closes at 12:00."""

BLOCK: Final = 20
"""Ticks whose commands are admitted together, one block ahead of the clock.

No flight of the day is shorter, so the aircraft that arrive in a block have departed in an earlier
one and have their entity ids. Few commands are open at any time, as a fork wants it.
"""

T = TypeVar("T")
Pause: TypeAlias = Callable[[float], Awaitable[None]]
Stage: TypeAlias = Literal["as it was", "what if", "land"]


class Watch(Protocol):
    """Whoever wants to know how far the work is."""

    def __call__(self, stage: Stage, done: int, total: int | None) -> None: ...


@dataclass(frozen=True, slots=True)
class TwoDays:
    """Both worlds after their last tick, and what the closing prevented."""

    source: World
    fork: World
    closing: Closing
    grounded: Grounded
    inherited: tuple[Receipt, ...]
    """Departures that were open in the source at the fork, and were cancelled in the fork alone."""


async def run_both(
    storage: Storage,
    flights: Sequence[Flight],
    *,
    watch: Watch,
    closing: Closing = CLOSING,
    last_tick: int = TICKS - 1,
    pause: Pause = asyncio.sleep,
) -> TwoDays:
    """Run the day to the closing, fork it there, and run both to ``last_tick``; then land their rows.

    Called again after any end, also a kill, it goes on where it was; on a finished storage it changes
    nothing. Units: ``closing.after_tick`` is a multiple of BLOCK.
    """
    source = await storage.create_world("The day as it was", world_id=SOURCE_ID)
    as_it_was = _Course(source, by_departure(flights), pause)
    await as_it_was.advance(closing.after_tick, watch=watch, stage="as it was", last=last_tick)

    fork = await source.fork("The day Newark closed at noon", world_id=FORK_ID)
    prevented = grounded(flights, closing)
    what_if = as_it_was.taken_up_by(fork)
    inherited = await what_if.close(closing, prevented)

    await as_it_was.advance(last_tick, watch=watch, stage="as it was", last=last_tick)
    await what_if.advance(last_tick, watch=watch, stage="what if", last=last_tick)
    watch("land", 0, None)
    landed = await patiently(lambda: storage.land(SOURCE_ID, FORK_ID), pause)
    watch("land", landed.rows, landed.rows)
    return TwoDays(source, fork, closing, prevented, inherited)


@dataclass(slots=True)
class _Course:
    """One world's way through the day, block by block."""

    world: World
    flights: Sequence[Flight]
    """Those that fly in this world, by departure."""

    pause: Pause
    published: int = 0
    """The last block that is published."""

    admitted: int = -1
    """The last block that is admitted."""

    receipts: dict[Flight, Receipt] = field(default_factory=dict)
    """The admitted departures."""

    async def advance(self, to_tick: int, *, watch: Watch, stage: Stage, last: int) -> None:
        """Admit and publish the blocks up to ``to_tick``."""
        while self.published * BLOCK < to_tick:
            self.published += 1
            while self.admitted <= self.published:
                self.admitted += 1
                await self._admit(self.admitted)
            reached = min(self.published * BLOCK, to_tick)
            await patiently(partial(self.world.run, to_tick=reached), self.pause)
            watch(stage, reached + 1, last + 1)

    def taken_up_by(self, fork: World) -> _Course:
        """Return the course of a fork, which has inherited all that this one has admitted."""
        receipts = dict(self.receipts)
        return _Course(fork, self.flights, self.pause, self.published, self.admitted, receipts)

    async def close(self, closing: Closing, prevented: Grounded) -> tuple[Receipt, ...]:
        """Close the airport in this world alone: say so, and take back what cannot happen."""
        await self.world.submit(parsed_commands([sign(closing)]), batch_id="closing")
        open_now = [flight for flight in self.receipts if flight in prevented.flights]
        cancelled = []
        for flight in open_now:
            receipt = self.receipts.pop(flight)
            await self.world.cancel(receipt.command_id)
            cancelled.append(receipt)
        self.flights = [flight for flight in self.flights if flight not in prevented.flights]
        return tuple(cancelled)

    async def _admit(self, block: int) -> None:
        """Admit what is due in a block, all at once: departures first, then arrivals."""
        departing = [each for each in self.flights if _block_of(each.departure_tick) == block]
        arriving = [each for each in self.flights if _block_of(each.arrival_tick) == block]
        commands = [spawn(each) for each in departing]
        commands += [despawn(each, self._entity_of(each)) for each in arriving]
        if not commands:
            return
        sent = await self.world.submit(parsed_commands(commands), batch_id=f"block-{block:03}")
        self.receipts.update(zip(departing, sent.receipts, strict=False))

    def _entity_of(self, flight: Flight) -> int:
        entity_id = self.receipts[flight].entity_id
        assert entity_id is not None, "a spawn has its entity id from admission on"
        return entity_id


async def patiently(work: Callable[[], Awaitable[T]], pause: Pause) -> T:
    """Do what may be done again until it succeeds, for longer than the lease of a dead writer.

    Raises: what ``work`` raises; an Unavailable kind only when patience is at its end.
    """
    waited = 0.0
    while True:
        try:
            return await work()
        except Unavailable:
            if waited >= PATIENCE_SECONDS:
                raise
        await pause(PAUSE_SECONDS)
        waited += PAUSE_SECONDS


def sign(closing: Closing) -> Command:
    """Return the command that leaves the closing in the world itself, for any query to find."""
    since_tick = closing.after_tick + 1
    closed = {"airport": closing.airport, "since_tick": since_tick}
    return {"operation": "spawn", "components": {"Closed": closed}, "tick": since_tick}


def _block_of(tick: int) -> int:
    """Return the block that ends at the first multiple of BLOCK not before ``tick``."""
    return -(-tick // BLOCK)
