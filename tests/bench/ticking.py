"""Ticks: every entity moves, and what changed is published."""

from __future__ import annotations

from pathlib import Path

from tests.bench import floors
from tests.bench.bench import Bench, moving_app, opened
from tests.bench.figures import Budget, Figure, Watch, in_turn

from perdure.authority import system
from perdure.kernel.history import ReadWorld
from perdure.kernel.reading import FindWorld
from perdure.lake.changes import changes
from perdure.runtime.compute import TickFacts, compute
from perdure.runtime.rebuild import rebuild

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
        ticker = storage.ticker()
        ref = await storage.populated("w", entities, ticker)
        grip = await ticker.take(ref)
        bare = floors.BareTick(entities, directory / "floor.arrow")

        async def whole() -> float:
            nonlocal grip
            with Watch() as watch:
                report, grip = await ticker.tick(ref, grip, keep=True)
            assert report.rows == entities
            return watch.ms

        async def floor() -> float:
            with Watch() as watch:
                bare()
            return watch.ms

        execute = storage.authority.execute
        world = await execute(ReadWorld(ref))
        found = await execute(FindWorld(ref))
        state = (await rebuild(storage.authority, storage.objects, ref, world, found.head)).state
        facts = TickFacts(world.world, world.run, grip.tick, system.now())

        async def in_memory() -> float:
            with Watch() as watch:
                done = await compute(state, storage.app.processors(), storage.app.registry, facts)
                changes(state, done.state)
            return watch.ms

        async def floor_in_memory() -> float:
            with Watch() as watch:
                bare.changed()
            return watch.ms

        rounds = bench.scale.rounds
        if bench.scale.name == "full":
            rounds = ROUNDS_HUGE if entities >= HUGE else ROUNDS
        measured, least, memory, least_memory = await in_turn(
            rounds, whole, floor, in_memory, floor_in_memory
        )
    name = f"{entities:,} entities"
    return [
        Figure(
            name,
            "ms",
            measured,
            least,
            "numpy compute, compare, one Arrow file with fsync",
            Budget(2),
        ),
        Figure(f"{name}, in memory", "ms", memory, least_memory, "numpy compute and compare"),
    ]
