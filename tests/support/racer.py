"""One of many processes that create a world at once: it says when it is ready, and how it went."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from perdure.api.settings import local
from perdure.api.wiring import opened_worlds
from perdure.kernel.errors import Refused


async def race(root: Path, name: str, world: str) -> None:
    """Create a world when a line comes in, and print what came of it."""
    async with opened_worlds(local(root)) as (_, worlds):
        print("ready", flush=True)  # noqa: T201
        sys.stdin.readline()
        try:
            await worlds.create(name, world_id=world)
        except Refused as refused:
            print(refused.code)  # noqa: T201
        else:
            print("created")  # noqa: T201


if __name__ == "__main__":
    asyncio.run(race(Path(sys.argv[1]), sys.argv[2], sys.argv[3]))
