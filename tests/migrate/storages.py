"""A storage with a past, to be moved: worlds of every kind, landed rows, settled commands."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.emulator.harbour import Cargo, Position, app

import perdure
from perdure.api.settings import Settings
from perdure.api.wiring_migrate import migrated

SHIPS = 700


def opened(root: Path):
    return perdure.open(root.as_uri(), app=app)


async def filled(root: Path) -> None:
    """Make a storage: a world with ticks and cargo, one with a schedule, one that is empty."""
    async with opened(root) as storage:
        harbour = await storage.create_world("harbour", world_id="harbour")
        ships = [perdure.Spawn(Position(x=n / 3, y=n / 7)) for n in range(SHIPS)]
        await harbour.submit(ships, batch_id="ships")
        await harbour.run(to_tick=2)
        await harbour.submit([perdure.AddComponents(Cargo(tons=7), entity_id=1)], batch_id="cargo")
        await harbour.run(to_tick=4)
        yard = await storage.create_world("yard", world_id="yard", every_ms=3_600_000)
        await yard.submit([perdure.Spawn(Position(x=1.0, y=2.0))], batch_id="one")
        await yard.run(to_tick=0)
        await storage.create_world("fresh", world_id="fresh")
        await storage.land()


async def rows(storage: Any, world: str, *components: str, **options: Any):
    """Return the rows of a world as Python objects."""
    found = await (await storage.world(world)).query(*components, **options)
    return found.to_pylist()


def tree(root: Path) -> dict[str, bytes]:
    """Return every file below a directory with its bytes."""
    return {
        path.relative_to(root).as_posix(): path.read_bytes() if path.is_file() else b""
        for path in sorted(root.rglob("*"))
    }


def killed(source: Settings, destination: Settings, migration: str, at: int) -> int:
    """Move in a process of its own that kills itself at its ``at``-th step; tell how it ended."""
    spelled = json.dumps([source.environment(), destination.environment(), migration, at])
    child = subprocess.run(
        [sys.executable, "-m", "tests.migrate.storages", spelled],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        timeout=120,
        check=False,
    )
    return child.returncode


if __name__ == "__main__":
    import signal

    from perdure.api.settings import settings

    left, right, name, last = json.loads(sys.argv[1])
    steps = 0

    def die(stage: str, done: int, total: int | None) -> None:
        global steps
        steps += 1
        if steps == last:
            os.kill(os.getpid(), signal.SIGKILL)

    asyncio.run(migrated(settings(left), settings(right), name, die))
