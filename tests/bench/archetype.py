"""archetype-ecs beside ours, in one run: ticks, durable admission, and ticks that settle."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

from tests.bench.bench import Bench, Storage, moving_app, opened, spawn, still_app
from tests.bench.figures import Figure, Timed, Watch, in_turn
from tests.bench.peers.child import Child, started
from tests.bench.peers.install import Missing, from_pypi
from tests.bench.ticking import Moving

PACKAGE = "archetype-ecs==0.6.3"
MINOR_MIN = 12
ENTITIES_MAX = 100_000
BATCH = 100
SETTLED = 1_000
ROUNDS_MAX = 5
BACKENDS = {
    "lancedb": "archetype-ecs on LanceDB, its default",
    "iceberg": "archetype-ecs on Iceberg",
}


@dataclass
class _Ours:
    storage: Storage
    numbers: itertools.count[int] = field(default_factory=itertools.count)

    async def admit(self, count: int) -> float:
        commands = [spawn(number) for number in range(BATCH)]
        with Watch() as watch:
            for number in itertools.islice(self.numbers, count // BATCH):
                await self.storage.worlds.submit("admit", commands, batch_id=f"b{number}")
        return count // BATCH * BATCH / watch.seconds

    async def settle(self, count: int) -> float:
        commands = [spawn(number) for number in range(count)]
        await self.storage.worlds.submit("settle", commands)
        ref, ticker = self.storage.worlds.ref("settle"), self.storage.ticker()
        grip = await ticker.take(ref)
        with Watch() as watch:
            report, _ = await ticker.tick(ref, grip)
        assert report.applied == count
        return count / watch.seconds


async def measure(bench: Bench) -> list[Figure]:
    """Measure the like of both, round by round. Nothing without the peer."""
    try:
        bench.say("archetype, installing: this takes minutes")
        python = await from_pypi("archetype", minor_min=MINOR_MIN)
    except Missing as missing:
        bench.notes.append(f"{PACKAGE} is left out: {missing}.")
        return []
    bench.notes.append(
        f"Peer: {PACKAGE}, its two backends with all settings default. Its ledger of commands is SQLite in"
        " WAL, synced in full, as ours. Counted by strace, a tick syncs once on LanceDB"
        " and five times on Iceberg, no file that holds rows; ours syncs each segment and its directory. It has no public method for durable commands: they go"
        " through the dispatcher that its HTTP routes use, without any caller's rights."
    )
    async with AsyncExitStack() as stack:
        directory = stack.enter_context(bench.directory())
        children = [
            await stack.enter_async_context(
                started(python, "archetype_child.py", directory / backend, backend)
            )
            for backend in BACKENDS
        ]
        figures = await _ticks(bench, stack, children)
        storage = await stack.enter_async_context(opened(directory, still_app()))
        for world in ("admit", "settle"):
            await storage.worlds.create(world, world_id=world)
        return [*figures, *await _commands(bench, _Ours(storage), children)]


async def _ticks(bench: Bench, stack: AsyncExitStack, children: Sequence[Child]) -> list[Figure]:
    figures = []
    for entities in [each for each in bench.scale.entities if each <= ENTITIES_MAX]:
        root = stack.enter_context(bench.directory())
        storage = await stack.enter_async_context(opened(root, moving_app()))
        moving = await Moving.of(storage, entities)
        name = f"tick of {entities:,} entities that all change"
        figures += await _figures(
            bench, name, "ms", moving.whole, children, "tick", {"entities": entities}
        )
    return figures


async def _commands(bench: Bench, ours: _Ours, children: Sequence[Child]) -> list[Figure]:
    count, settled = bench.scale.commits, min(SETTLED, bench.scale.settled)
    values = {"count": count, "size": BATCH}
    return [
        *await _figures(
            bench,
            f"admitted in batches of {BATCH}",
            "commands/s",
            lambda: ours.admit(count),
            children,
            "admit",
            values,
        ),
        *await _figures(
            bench,
            f"{settled:,} spawns settled in one tick",
            "commands/s",
            lambda: ours.settle(settled),
            children,
            "settle",
            {"count": settled},
        ),
    ]


async def _figures(
    bench: Bench,
    name: str,
    unit: str,
    ours: Timed,
    children: Sequence[Child],
    what: str,
    values: dict[str, Any],
) -> list[Figure]:
    bench.say(f"archetype, {name}")

    def asked(child: Child) -> Timed:
        async def ask() -> float:
            found: float = await child.ask(what, **values)
            return found

        return ask

    rounds = min(bench.scale.rounds, ROUNDS_MAX)
    measured, *theirs = await in_turn(rounds, ours, *map(asked, children))
    return [
        Figure(f"{name}, against {backend}", unit, measured, sample, BACKENDS[backend])
        for backend, sample in zip(BACKENDS, theirs, strict=True)
    ]
