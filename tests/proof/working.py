"""Processes that are killed under load: a server, two who tick, one who lands."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from tests.emulator.harbour import app
from tests.proof.asking import WORLDS

import perdure
from perdure.kernel.errors import NotFound, StaleWriter, Unavailable
from perdure_emulator.dev import dev

LEASE = "400ms"
"""What a writer that was killed keeps the others waiting."""

APP = "tests.emulator.harbour:app"
TICKS_AT_ONCE = 4
PAUSE_SECONDS = 0.15
LANDING_SECONDS = 0.5


def serving(root: Path, port: int, *options: str) -> None:
    """Serve all functions over HTTP, as `perdure dev` does."""
    os.environ["PERDURE_LEASE"] = LEASE
    dev.main(["--root", str(root), "--app", APP, "--port", str(port), *options])


def ticking(root: Path) -> None:
    """Tick every world, a few ticks at a time, for ever."""
    asyncio.run(_working(root, _ticked, PAUSE_SECONDS))


def landing(root: Path) -> None:
    """Land everything, for ever."""
    asyncio.run(_working(root, lambda storage: storage.land(), LANDING_SECONDS))


async def _working(root: Path, work: Callable[[Any], Awaitable[Any]], seconds: float) -> None:
    os.environ["PERDURE_LEASE"] = LEASE
    async with perdure.open(root.as_uri(), app=app) as storage:
        while True:
            # A rival has it, or the lease of a dead one has not run out.
            with contextlib.suppress(NotFound, StaleWriter, Unavailable):
                await work(storage)
            await asyncio.sleep(seconds)


async def _ticked(storage: Any) -> None:
    for each in WORLDS:
        world = await storage.world(each)
        info = await world.info()
        with contextlib.suppress(StaleWriter, Unavailable):
            await world.run(to_tick=info.next_tick + TICKS_AT_ONCE - 1)


def settled(root: Path) -> None:
    """Tick until nothing is open, and land what there is."""
    asyncio.run(_settled(root))


async def _settled(root: Path) -> None:
    os.environ["PERDURE_LEASE"] = LEASE
    async with perdure.open(root.as_uri(), app=app) as storage:
        for each in WORLDS:
            world = await storage.world(each)
            while (await world.info()).pending_commands:
                try:
                    await world.run(to_tick=(await world.info()).next_tick)
                except (StaleWriter, Unavailable):
                    await asyncio.sleep(0.1)
        while True:
            try:
                await storage.land()
            except (StaleWriter, Unavailable):
                await asyncio.sleep(0.1)
            else:
                return
