"""Ticks: every entity moves, and what changed is published."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.bench import floors
from tests.bench.bench import Bench, Storage, moving_app, opened
from tests.bench.figures import Budget, Figure, Watch, in_turn

from perdure.authority import system
from perdure.kernel.fence import Grip
from perdure.kernel.places import WorldRef
from perdure.kernel.reading import FindWorld
from perdure.lake.changes import changes
from perdure.runtime.compute import TickFacts, compute
from perdure.runtime.rebuild import Warm, rebuild
from perdure.runtime.tick import Ticker

HUGE = 1_000_000
ROUNDS = 15
ROUNDS_HUGE = 5


async def measure(bench: Bench) -> list[Figure]:
    """Measure whole ticks by number of entities, and what of them happens in memory."""
    figures = []
    for entities in bench.scale.entities:
        bench.say(f"ticks of {entities:,} entities")
        with bench.directory() as directory:
            figures += await _of_entities(bench, directory, entities)
    return figures


async def _of_entities(bench: Bench, directory: Path, entities: int) -> list[Figure]:
    async with opened(directory, moving_app()) as storage:
        bare = floors.BareTick(entities, directory / "floor.arrow")
        moving = await Moving.of(storage, entities)

        async def floor() -> float:
            with Watch() as watch:
                bare()
            return watch.ms

        async def floor_in_memory() -> float:
            with Watch() as watch:
                bare.changed()
            return watch.ms

        rounds = bench.scale.rounds
        if bench.scale.name == "full":
            rounds = ROUNDS_HUGE if entities >= HUGE else ROUNDS
        measured, least, memory, least_memory = await in_turn(
            rounds, moving.whole, floor, moving.in_memory, floor_in_memory
        )
    name = f"{entities:,} entities"
    least_name = "numpy compute, compare, one Arrow file with fsync"
    return [
        Figure(name, "ms", measured, least, least_name, Budget(2)),
        Figure(f"{name}, in memory", "ms", memory, least_memory, "numpy compute and compare"),
    ]


@dataclass
class Moving:
    """A world all of whose entities move, its state, and a writer that is warm."""

    storage: Storage
    ticker: Ticker
    ref: WorldRef
    grip: Grip
    warm: Warm

    @classmethod
    async def of(cls, storage: Storage, entities: int) -> Moving:
        ticker = storage.ticker()
        ref = await storage.populated("w", entities, ticker)
        found = await storage.authority.execute(FindWorld(ref))
        warm = await rebuild(storage.authority, storage.objects, ref, found.world, found.head)
        return cls(storage, ticker, ref, await ticker.take(ref), warm)

    async def whole(self) -> float:
        with Watch() as watch:
            report, self.grip = await self.ticker.tick(self.ref, self.grip, keep=True)
        assert report.rows == report.entities
        return watch.ms

    async def in_memory(self) -> float:
        world, app = self.warm.world, self.storage.app
        facts = TickFacts(world.world, world.run, self.grip.tick, system.now())
        with Watch() as watch:
            done = await compute(self.warm.state, app.processors(), app.registry, facts)
            changes(self.warm.state, done.state)
        return watch.ms
