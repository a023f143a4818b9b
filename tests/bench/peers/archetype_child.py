"""archetype-ecs in its own environment: ticks of a world, and commands that wait for one."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
import traceback
from pathlib import Path

from archetype.commands.models import DeferredItem, DurableOptions
from archetype.core.aio.async_processor import AsyncProcessor
from archetype.core.component import Component
from archetype.core.config import StorageBackend, StorageConfig
from archetype.runtime.runtime import ArchetypeRuntime
from archetype.world.models import ComponentValue, Spawn
from daft import col


class Position(Component):
    x: float = 0.0
    y: float = 0.0


class Velocity(Component):
    dx: float = 0.0
    dy: float = 0.0


class Drift(AsyncProcessor):
    """Move every entity, as ours do."""

    components = (Position, Velocity)

    async def process(self, df: object, **_: object) -> object:
        return df.with_columns(
            {
                f"position__{axis}": col(f"position__{axis}") + col(f"velocity__d{axis}")
                for axis in "xy"
            }
        )


def components(number: int) -> list[Component]:
    return [
        Position(x=number * 0.5, y=number * 0.25),
        Velocity(dx=(number % 97 + 1) / 7, dy=0.5),
    ]


class Worlds:
    """Worlds of one runtime on one backend, one for each kind of question."""

    def __init__(self, runtime: ArchetypeRuntime, storage: StorageConfig) -> None:
        self._runtime = runtime
        self._storage = storage
        self._held: dict[str, object] = {}
        self._ticks: dict[str, int] = {}

    async def tick(self, request: dict) -> float:
        """Return the milliseconds of one step; the first time, entities are made before."""
        entities = request["entities"]
        name = f"tick-{entities}"
        if name not in self._held:
            world = self._world(name, [Drift()])
            await world.spawn_many([components(number) for number in range(entities)])
            await self._step(name)
        return await self._step(name) * 1e3

    async def admit(self, request: dict) -> float:
        """Return the commands a second that are durably deferred, in batches."""
        count, size = request["count"], request["size"]
        world = await self._begun("admit")
        batches = [
            tuple(self._spawn(world, number, tick=1_000_000) for number in range(size))
            for _ in range(count // size)
        ]
        began = time.perf_counter()
        for batch in batches:
            await self._runtime._dispatcher.defer_batch(batch)
        return count // size * size / (time.perf_counter() - began)

    async def settle(self, request: dict) -> float:
        """Return the commands a second of the one step that settles them."""
        world, count = await self._begun("settle"), request["count"]
        tick = self._ticks["settle"]
        items = tuple(self._spawn(world, number, tick=tick) for number in range(count))
        await self._runtime._dispatcher.defer_batch(items)
        return count / await self._step("settle")

    async def _begun(self, name: str) -> object:
        if name not in self._held:
            world = self._world(name, [])
            await world.spawn_many([components(0)])
            await self._step(name)
        return self._held[name]

    def _world(self, name: str, processors: list[AsyncProcessor]) -> object:
        world = self._runtime.world(name, storage=self._storage, processors=processors)
        self._held[name], self._ticks[name] = world, 0
        return world

    async def _step(self, name: str) -> float:
        began = time.perf_counter()
        await self._held[name].step()
        self._ticks[name] += 1
        return time.perf_counter() - began

    def _spawn(self, world: object, number: int, *, tick: int) -> DeferredItem:
        values = tuple(map(ComponentValue.from_component, components(number)))
        spawn = Spawn(world_id=world.world_id, components=values)
        return DeferredItem(spawn, DurableOptions(target_tick=tick))


async def main() -> None:
    """Do what standard input asks: ``archetype_child.py DIRECTORY lancedb|iceberg``."""
    place, backend = Path(sys.argv[1]), StorageBackend(sys.argv[2])
    storage = StorageConfig(uri=str(place), backend=backend)
    async with ArchetypeRuntime() as runtime:
        worlds = Worlds(runtime, storage)
        while line := await asyncio.to_thread(sys.stdin.readline):
            request = json.loads(line)
            done = await getattr(worlds, request["do"])(request)
            sys.stdout.write(json.dumps({"done": done}) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except BaseException:  # noqa: BLE001 (printed, and the process ends)
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(1)  # its threads would keep the process, and whoever reads would wait for them
