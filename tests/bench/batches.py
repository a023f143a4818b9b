"""Batches: thousands of commands in one commit."""

from __future__ import annotations

import itertools

from tests.bench import floors
from tests.bench.bench import Bench, as_json, opened, spawn, still_app
from tests.bench.figures import Budget, Figure, Watch, counted, in_turn

from perdure.kernel.operations import parsed_commands

BUDGETS = {
    100: Budget(100_000, of="figure", at_least=True),
    10_000: Budget(300_000, of="figure", at_least=True),
}
COMMANDS_A_ROUND = 10_000


async def measure(bench: Bench) -> list[Figure]:
    """Measure batches by size against JSON and one transaction."""
    figures = []
    for size in bench.scale.batches:
        bench.say(f"batches of {size:,}")
        figures += await _of_size(bench, size)
    return figures


async def _of_size(bench: Bench, size: int) -> list[Figure]:
    commands = [spawn(number) for number in range(size)]
    raw = [as_json(command) for command in commands]
    times = max(1, min(bench.scale.commits, COMMANDS_A_ROUND // size))
    numbers = itertools.count()
    with bench.directory() as directory, floors.database(directory / "floor.db") as bare:
        async with opened(directory, still_app()) as storage:
            await storage.worlds.create("w", world_id="w")

            async def ours() -> float:
                with Watch() as watch:
                    for number in itertools.islice(numbers, times):
                        admitted = await storage.worlds.submit("w", commands, batch_id=f"b{number}")
                        assert len(admitted.receipts) == size
                return times * size / watch.seconds

            async def from_json() -> float:
                with Watch() as watch:
                    for number in itertools.islice(numbers, times):
                        read = parsed_commands(raw)
                        admitted = await storage.worlds.submit("w", read, batch_id=f"b{number}")
                        assert len(admitted.receipts) == size
                return times * size / watch.seconds

            async def floor() -> float:
                with Watch() as watch:
                    for number in itertools.islice(numbers, times):
                        floors.admit_batch(bare, f"b{number}", raw)
                return times * size / watch.seconds

            rounds = bench.scale.rounds
            measured, parsed, least = await in_turn(rounds, ours, from_json, floor)
            syncs = storage.store.syncs / (2 * times * (rounds + 1) * size)
    name = f"batches of {size:,}"
    floor_name = "json.dumps each, one transaction"
    figures = [
        Figure(name, "commands/s", measured, least, floor_name, BUDGETS.get(size)),
        Figure(f"{name}, from JSON values", "commands/s", parsed, least, floor_name),
    ]
    if size == 100:
        budget = Budget(0.0101, of="figure")  # one hundredth, and the creation of the world
        figures.append(Figure(f"{name}, syncs a command", "syncs", counted(syncs), budget=budget))
    return figures
