"""History: what a tick, a cold query and a cold resume cost when a world has a long past."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack, closing
from dataclasses import dataclass

from tests.bench.bench import STORAGE, Bench, Storage, moving_app, opened
from tests.bench.figures import Budget, Figure, Sample, Timed, Watch, in_turn

from perdure.authority import system
from perdure.kernel import limits
from perdure.kernel.fence import Grip
from perdure.kernel.ids import EntityId, Holder
from perdure.kernel.places import WorldRef
from perdure.kernel.reading import FindWorld
from perdure.lake.catalog import open_local
from perdure.lake.iceberg import Lake
from perdure.runtime.land import Landing
from perdure.runtime.read import Reader
from perdure.runtime.rebuild import rebuild
from perdure.runtime.tick import Ticker

ENTITIES = 100
ENTITY = EntityId(7)
BUDGET = Budget(1.2)
SAY_TICKS = 500


@dataclass
class _Past:
    """A small world with so many published ticks, and a writer that is warm."""

    storage: Storage
    ticker: Ticker
    ref: WorldRef
    grip: Grip

    @classmethod
    async def of(cls, storage: Storage) -> _Past:
        ticker = storage.ticker()
        ref = await storage.populated("w", ENTITIES, ticker)
        return cls(storage, ticker, ref, await ticker.take(ref))

    @property
    def ticks(self) -> int:
        return self.grip.tick

    async def grow(self, ticks: int, bench: Bench) -> None:
        while self.ticks < ticks:
            if self.ticks % SAY_TICKS == 0:
                bench.say(f"history, {self.ticks:,} of {ticks:,} ticks")
            await self.tick()

    async def tick(self) -> float:
        with Watch() as watch:
            report, self.grip = await self.ticker.tick(self.ref, self.grip, keep=True)
        assert report.rows == ENTITIES
        return watch.ms

    async def query(self) -> float:
        """Ask for one entity's state at the published tick, with everything opened anew."""
        with Watch() as watch:
            async with opened(self.storage.root, self.storage.app) as cold:
                with closing(open_local(cold.root)) as catalog:
                    reader = Reader(cold.authority, cold.objects, Lake(catalog, "bench"), STORAGE)
                    rows = await reader.query(self.ref.world, ["Position"], entity_ids=[ENTITY])
        assert rows.num_rows == 1
        return watch.ms

    async def resume(self) -> float:
        """Rebuild the state at the head, with everything opened anew."""
        with Watch() as watch:
            async with opened(self.storage.root, self.storage.app) as cold:
                found = await cold.authority.execute(FindWorld(self.ref))
                warm = await rebuild(
                    cold.authority, cold.objects, self.ref, found.world, found.head
                )
        assert warm.state.entities == ENTITIES
        return watch.ms

    async def land(self) -> None:
        with closing(open_local(self.storage.root)) as catalog:
            lake = Lake(catalog, "bench")
            landing = Landing(self.storage.authority, self.storage.objects, lake, STORAGE)
            await landing.land(
                [self.ref.world], holder=Holder(system.new_token()), new_token=system.new_token
            )


async def measure(bench: Bench) -> list[Figure]:
    """Measure an old world and a young one in turn, at several ages of the old one."""
    young_ticks, *ages = bench.scale.history
    figures: list[Figure] = []
    async with AsyncExitStack() as stack:
        old = await _past(stack, bench)
        for age in ages:
            # A young world for each age: measuring ticks it makes it older.
            young = await _past(stack, bench)
            await young.grow(young_ticks, bench)
            await old.grow(_alike(age, young_ticks), bench)
            figures += await _at(bench, young, old)
    return figures


async def _at(bench: Bench, young: _Past, old: _Past) -> list[Figure]:
    rounds = bench.scale.rounds
    past, ago = f"{old.ticks:,} ticks", f"the same at {young.ticks:,} ticks"
    timed: dict[str, tuple[Timed, Timed]] = {
        f"one-entity cold query at {past}": (old.query, young.query),
        f"resume at {past}": (old.resume, young.resume),
        f"tick at {past}": (old.tick, young.tick),
    }
    found = {name: await in_turn(rounds, *both) for name, both in timed.items()}
    bench.say(f"landing a history of {past}")
    for each in (old, young):
        await each.land()
    found[f"one-entity cold query at {past}, all landed"] = await in_turn(
        rounds, old.query, young.query
    )
    return [_figure(name, samples, ago) for name, samples in found.items()]


def _figure(name: str, samples: Sequence[Sample], ago: str) -> Figure:
    measured, floor = samples
    return Figure(name, "ms", measured, floor, ago, BUDGET)


def _alike(age: int, young_ticks: int) -> int:
    """Return the age from ``age`` on at which the last checkpoint is as far as in the young."""
    return age + (young_ticks - age) % limits.CHECKPOINT_TICKS


async def _past(stack: AsyncExitStack, bench: Bench) -> _Past:
    root = stack.enter_context(bench.directory())
    return await _Past.of(await stack.enter_async_context(opened(root, moving_app())))
