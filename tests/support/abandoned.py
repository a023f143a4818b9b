"""A process that works in a private world and is killed in the middle of it."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import perdure
from perdure.kernel.operations import parsed_commands
from perdure.runtime.app import load_app
from perdure.runtime.private import private_world
from perdure.runtime.run import run_ticks

LEASE = 2_000
"""Milliseconds after which nobody need wait for the one who was killed."""


async def abandoned(root: Path, app: str) -> None:
    """Publish one tick of the private world "p", leave one command open, and die."""
    async with perdure.open(root.as_uri(), app=load_app(app)) as storage:
        means, worlds = storage.ticker.means, storage.worlds
        made = private_world(means, worlds, "evidence", world_id="p", lease_ms=LEASE)
        async with made as grip:
            spawn = {"operation": "spawn", "components": {"Position": {"x": 1.0, "y": 0.0}}}
            commands = parsed_commands([spawn, {**spawn, "tick": 9}])
            await worlds.submit("p", commands, batch_id="b", holder=grip.holder)
            deadline = means.now() + 60_000
            await run_ticks(grip.ticker, worlds.ref("p"), to_tick=0, deadline=deadline)  # type: ignore[arg-type]  # an Instant is an int
            os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    asyncio.run(abandoned(Path(sys.argv[1]), sys.argv[2]))
