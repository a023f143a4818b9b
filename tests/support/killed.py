"""A process that destroys the harbour and is killed at one of its commits."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.support.steps import Steps, kill_9, step_by_step

import perdure
from perdure.runtime.app import load_app
from perdure.runtime.close import destroy

LEASE = 300
"""Milliseconds that the one who is killed holds the fence: the next one waits for it."""


async def destroyed(root: Path, app: str, at: int, *, after: bool) -> None:
    """Destroy the world "harbour" as far as this process lives."""
    async with perdure.open(root.as_uri(), app=load_app(app)) as storage:
        step_by_step(storage.ticker.means.authority, Steps(at, after=after, end=kill_9))
        await destroy(storage.ticker.means, storage.worlds.ref("harbour"), lease_ms=LEASE)


if __name__ == "__main__":
    asyncio.run(
        destroyed(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), after=sys.argv[4] == "after")
    )
