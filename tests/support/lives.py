"""Processes that work on one storage and are killed in the middle: the same call goes on.

Each prints a line for what was acknowledged to it, and nothing before it was.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from tests.emulator.harbour import Position, app
from tests.support.steps import SteppedObjects, Steps, kill_9, step_by_step

import perdure
from perdure import Spawn
from perdure.kernel import limits
from perdure.kernel.caller import Allowance, Caller
from perdure.kernel.errors import (
    Contended,
    FenceHeld,
    NotFound,
    QuotaExceeded,
    WorldClosing,
    WorldDestroyed,
)
from perdure.kernel.ids import Holder, Instant
from perdure.runtime.close import destroy
from perdure.runtime.storage import Storage, World
from perdure.runtime.tick import Ticker
from perdure.runtime.trim import GRACE_MS, Trimming

LEASE_MS = 300
"""How long a dead process stands in the way of the next."""

DAY_TICKS = 12
FORK_TICKS = 24
FLEET = 300
"""Ships whose rows of a tick are too many for its manifest."""

UNITS = 30
OFFERED = 22
"""What one actor may spend, and what each of its two processes would."""

ANN = Caller("ann", "gateway", Allowance(units=UNITS, window_ms=10**12))


def say(*words: object) -> None:
    print(*words, flush=True)  # noqa: T201


@contextlib.asynccontextmanager
async def opened(root: Path, death: str = "") -> AsyncIterator[Storage]:
    """Open the storage with a writer of a short lease; it dies at ``<what>:<number>:<when>``."""
    async with perdure.open(root.as_uri(), app=app) as storage:
        means = storage.ticker.means
        if death:
            what, at, when = death.split(":")
            steps = Steps(int(at), after=when == "after", of=what, end=kill_9)
            step_by_step(means.authority, steps)
            means = replace(means, objects=SteppedObjects(means.objects, steps))
        ticker = Ticker(means, Holder(storage.new_token()), lease_ms=LEASE_MS)
        yield replace(storage, ticker=ticker)


async def patiently(work: Callable[[], Awaitable[Any]]) -> Any:
    """Wait for the lease of whoever died, and try again where a rival was first."""
    while True:
        try:
            return await work()
        except (Contended, FenceHeld):
            await asyncio.sleep(0.05)


async def day(storage: Storage) -> None:
    """Tick the day, and let two ships enter with each hour: one now, one three hours later."""
    world = await storage.create_world("day", world_id="day")
    for hour in range(DAY_TICKS):
        ships = [
            Spawn(Position(x=hour, y=0), tick=hour),
            Spawn(Position(x=hour, y=1), tick=hour + 3),
        ]
        sent = await world.submit(ships, batch_id=f"h{hour}")
        say("admitted", *(each.command_id for each in sent.receipts))
        await patiently(lambda to=hour: world.run(to_tick=to))


async def fork(storage: Storage, hour: str) -> None:
    """Fork the day when it has come so far, and let the fork run longer."""
    world = await come(storage, int(hour))
    forked = await world.fork("what if", world_id="fork")
    info = await forked.info()
    say("forked", info.run_id)
    await patiently(lambda: forked.run(to_tick=FORK_TICKS))


async def come(storage: Storage, hour: int) -> World:
    """Return the day when it has come so far."""
    while True:
        with contextlib.suppress(NotFound):
            world = await storage.world("day")
            if (await world.info()).next_tick > hour:
                return world
        await asyncio.sleep(0.002)


async def admit(storage: Storage) -> None:
    """Submit to a world until it ends."""
    world = await storage.create_world("ending", world_id="ending")
    for number in range(10_000):
        sending = partial(world.submit, [Spawn(Position(x=number, y=0))], batch_id=f"b{number}")
        try:
            sent = await patiently(sending)
        except (WorldClosing, WorldDestroyed) as refused:
            say("refused", refused.code)
            return
        if not sent.replayed:
            say("admitted", sent.receipts[0].command_id)


async def end(storage: Storage) -> None:
    """Destroy the world that others submit to."""
    means = storage.ticker.means
    ref = storage.worlds.ref("ending")
    done = await patiently(lambda: destroy(means, ref, lease_ms=LEASE_MS))
    say("ended", done.info.status)


async def live(storage: Storage) -> None:
    """Let a world have a past that is worth keeping."""
    world = await storage.create_world("kept", world_id="kept")
    fleet = [Spawn(Position(x=number, y=0)) for number in range(FLEET)]
    await world.submit(fleet, batch_id="fleet")
    await world.run(to_tick=DAY_TICKS - 1)


async def keep(storage: Storage) -> None:
    """Land the past, tell it to the audit table, and trim it, as if a day had passed."""
    means, landing = storage.ticker.means, storage.landing
    worlds = [storage.worlds.ref("kept").world]
    held = {"new_token": storage.new_token, "lease_ms": LEASE_MS}
    for laying in (landing.land, storage.projection.project):
        holder = Holder(storage.new_token())
        await patiently(lambda lay=laying, by=holder: lay(worlds, holder=by, **held))
    later = Instant(storage.now() + 2 * GRACE_MS)
    trimming = Trimming(means.authority, means.objects, landing.storage, lambda: later, 4)
    trimmed, _ = await trimming.trim(worlds)
    say("trimmed", trimmed.segments, trimmed.archived)


async def pay(storage: Storage, name: str) -> None:
    """Submit more than the actor may, to a world of this process's own."""
    await storage.create_world(name, world_id=name)
    for number in range(OFFERED):
        commands = [Spawn(Position(x=number, y=0))]
        try:
            await storage.worlds.submit(name, commands, batch_id=f"{name}-{number}", by=ANN)
        except QuotaExceeded:
            say("refused", f"{name}-{number}")
        else:
            say("admitted", f"{name}-{number}")


PARTS: dict[str, Callable[..., Awaitable[None]]] = {
    each.__name__: each for each in (day, fork, admit, end, live, keep, pay)
}


async def work(root: Path, death: str, part: str, *more: str) -> None:
    limits.CHECKPOINT_TICKS = 4  # a past of a few ticks has something to be trimmed
    async with opened(root, death) as storage:
        say("begun")
        await PARTS[part](storage, *more)


if __name__ == "__main__":
    asyncio.run(work(Path(sys.argv[1]), *sys.argv[2:]))
