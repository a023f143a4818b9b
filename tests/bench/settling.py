"""Settlement: a tick applies thousands of commands and publishes what became of them."""

from __future__ import annotations

import gc
import sqlite3
from collections.abc import Sequence

from tests.bench import floors
from tests.bench.bench import Bench, Storage, as_json, opened, spawn, still_app, update
from tests.bench.figures import Budget, Figure, Sample, Watch

from perdure import Spawn, Update
from perdure.kernel.drain import DrainDue
from perdure.kernel.ids import Seq
from perdure.lake.state import EMPTY, WorldState
from perdure.runtime.apply import apply_drained
from perdure.runtime.tick import Ticker

BUDGETS = {"spawns": 200_000, "updates": 100_000}

Rates = dict[str, dict[str, list[float]]]
"""Commands a second of every round: by what is settled, then by part."""


async def measure(bench: Bench) -> list[Figure]:
    """Measure ticks that settle spawns, then updates: whole, and applying alone."""
    count = bench.scale.settled
    rates: Rates = {what: {"whole": [], "alone": [], "floor": []} for what in BUDGETS}
    with bench.directory() as directory, floors.database(directory / "floor.db") as bare:
        async with opened(directory, still_app()) as storage:
            await _round(storage, bare, "warm-up", count)
            for number in range(bench.scale.rounds):
                bench.say(f"settling {count:,} spawns and updates, round {number + 1}")
                found = await _round(storage, bare, f"w{number}", count)
                for what, part, rate in found:
                    rates[what][part].append(rate)
    figures = []
    for what, budget in BUDGETS.items():
        held = {part: Sample(tuple(values)) for part, values in rates[what].items()}
        figures += [
            Figure(
                f"{count:,} {what}, whole tick",
                "commands/s",
                held["whole"],
                held["floor"],
                "rows and JSON in one SQLite transaction",
                Budget(budget, of="figure", at_least=True),
            ),
            Figure(f"{count:,} {what}, applying alone", "commands/s", held["alone"]),
        ]
    return figures


async def _round(
    storage: Storage, bare: sqlite3.Connection, world: str, count: int
) -> list[tuple[str, str, float]]:
    """Settle spawns in a new world, then an update of each entity."""
    await storage.worlds.create(world, world_id=world)
    spawns = [spawn(number) for number in range(count)]
    updates = [update(number) for number in range(1, count + 1)]  # a world's ids begin at 1
    ticker = storage.ticker()  # one: its state is warm when the updates come
    whole, alone, state, seq = await _settled(storage, ticker, world, spawns, EMPTY, Seq(0))
    found = [("spawns", "whole", whole), ("spawns", "alone", alone)]
    whole, alone, *_ = await _settled(storage, ticker, world, updates, state, seq)
    found += [("updates", "whole", whole), ("updates", "alone", alone)]
    bare.execute("DELETE FROM entity")
    for what, commands in (("spawns", spawns), ("updates", updates)):
        found.append((what, "floor", _bare(bare, f"{world}-{what}", commands)))
    return found


async def _settled(
    storage: Storage,
    ticker: Ticker,
    world: str,
    commands: Sequence[Spawn | Update],
    before: WorldState,
    since: Seq,
) -> tuple[float, float, WorldState, Seq]:
    """Return the rates of a whole tick and of applying alone, the state after it, and its drain."""
    ref = storage.worlds.ref(world)
    await storage.worlds.submit(world, commands)
    grip = await ticker.take(ref)
    drained = await storage.authority.execute(DrainDue(ref, grip.tick, since))
    gc.collect()
    with Watch() as applying:
        outcome = await apply_drained(before, drained, storage.app.registry, on_failure="stop")
    gc.collect()
    with Watch() as ticking:
        report, _ = await ticker.tick(ref, grip)
    assert report.applied == len(outcome.applied) == len(commands)
    whole, alone = len(commands) / ticking.seconds, len(commands) / applying.seconds
    return whole, alone, outcome.state, drained.head.seq


def _bare(bare: sqlite3.Connection, id: str, commands: Sequence[Spawn | Update]) -> float:
    floors.admit_batch(bare, id, [as_json(each) for each in commands])
    gc.collect()
    with Watch() as watch:
        settled = floors.settle(bare)
    return settled / watch.seconds
