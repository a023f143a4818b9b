"""End to end: from a request until its tick is published and a query answers it."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Awaitable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

from tests.bench import end_to_end_http, floors
from tests.bench.bench import STORAGE, Bench, Storage, as_json, opened, spawn, still_app
from tests.bench.figures import Figure, Watch, in_turn

from perdure.kernel.ids import EntityId
from perdure.lake.catalog import open_local
from perdure.lake.iceberg import Lake
from perdure.runtime.read import Reader
from perdure.runtime.tick import Ticker

FLOOR = "asyncio group commit, then rows and JSON in one SQLite transaction"
ALONE = 100
"""Requests of a round of one caller that waits for the end of each."""

BATCH = 100
WRITERS = 8


@dataclass
class _Worlds:
    """Worlds that are ticked while they are written to, by a few writers."""

    storage: Storage
    names: list[str]
    reader: Reader
    tickers: list[Ticker] = field(default_factory=list)
    numbers: itertools.count[int] = field(default_factory=itertools.count)
    spawned: dict[str, int] = field(default_factory=dict)

    @classmethod
    async def of(cls, bench: Bench, storage: Storage, reader: Reader) -> _Worlds:
        names = [f"w{number}" for number in range(bench.scale.worlds)]
        for name in names:
            await storage.worlds.create(name, world_id=name)
        tickers = [storage.ticker(f"writer-{number}") for number in range(WRITERS)]
        return cls(storage, names, reader, tickers, spawned=dict.fromkeys(names, 0))

    async def settle(self, count: int, callers: int, size: int) -> float:
        """Send so many commands, in requests of a size, and return how many settle a second.

        The clock stops when the last tick is published; then every world is asked for what it has.
        """
        commands = [spawn(number) for number in range(size)]
        share = iter(range(count // size))
        open_worlds: dict[str, None] = {}
        with Watch() as watch:
            sending = asyncio.gather(
                *(self._caller(share, commands, open_worlds) for _ in range(callers))
            )
            await asyncio.gather(
                sending,
                *(self._writer(at, open_worlds, sending) for at in range(len(self.tickers))),
            )
        await self._check()
        return count // size * size / watch.seconds

    async def alone(self) -> float:
        """Send one command, tick, ask for its entity; and again. Return milliseconds of one."""
        name = self.names[0]
        ref, ticker = self.storage.worlds.ref(name), self.tickers[0]
        with Watch() as watch:
            for number in itertools.islice(self.numbers, ALONE):
                sent = await self.storage.worlds.submit(
                    name, [spawn(number)], batch_id=f"b{number}"
                )
                await ticker.tick(ref, await ticker.take(ref))
                entity = EntityId(sent.receipts[0].entity_id or 0)
                rows = await self.reader.query(ref.world, ["Position"], entity_ids=[entity])
                assert rows.num_rows == 1
        self.spawned[name] += ALONE
        return watch.ms / ALONE

    async def _caller(
        self, share: Awaitable[int], commands: list[object], open_worlds: dict[str, None]
    ) -> None:
        for _ in share:
            number = next(self.numbers)
            name = self.names[number % len(self.names)]
            await self.storage.worlds.submit(name, commands, batch_id=f"b{number}")
            self.spawned[name] += len(commands)
            open_worlds[name] = None

    async def _writer(
        self, at: int, open_worlds: dict[str, None], sending: Awaitable[object]
    ) -> None:
        """Tick what is open of every so-manieth world, until nothing more will be."""
        ticker, mine = self.tickers[at], self.names[at :: len(self.tickers)]
        while True:
            is_last = sending.done()
            due = [name for name in mine if name in open_worlds]
            for name in due:
                del open_worlds[name]
                ref = self.storage.worlds.ref(name)
                await ticker.tick(ref, await ticker.take(ref), keep=True)
            if not due:
                if is_last:
                    return
                await asyncio.sleep(0.001)

    async def _check(self) -> None:
        for name, spawned in self.spawned.items():
            if spawned:
                rows = await self.reader.query(self.storage.worlds.ref(name).world, ["Position"])
                assert rows.num_rows == spawned, f"{name} has every entity that was acknowledged"


async def measure(bench: Bench) -> list[Figure]:
    """Measure in process, then over HTTP."""
    figures = []
    with bench.directory() as directory:
        figures += await _in_process(bench, directory)
    with bench.directory() as directory:
        figures += await end_to_end_http.measured(bench, directory)
    return figures


async def _in_process(bench: Bench, directory: Path) -> list[Figure]:
    callers, count = bench.scale.callers, 2 * bench.scale.commits
    rounds = min(bench.scale.rounds, end_to_end_http.ROUNDS_MAX)
    async with AsyncExitStack() as stack:
        storage = await stack.enter_async_context(opened(directory, still_app()))
        bare = stack.enter_context(floors.database(directory / "floor.db"))
        catalog = open_local(directory)
        stack.callback(catalog.close)
        reader = Reader(storage.authority, storage.objects, Lake(catalog, "bench"), STORAGE)
        worlds = await _Worlds.of(bench, storage, reader)
        group = floors.GroupCommit(bare)
        stack.callback(group.close)
        bench.say("end to end, one caller")
        (one,) = await in_turn(rounds, worlds.alone)
        figures = [Figure("one caller: submit, tick, query", "ms", one)]
        body = json.dumps(as_json(spawn(1))).encode()
        numbers = itertools.count()

        async def floor() -> float:
            share = itertools.islice(numbers, count)

            async def caller() -> None:
                for number in share:
                    await group.admit(f"f{number}", body)

            with Watch() as watch:
                await asyncio.gather(*(caller() for _ in range(callers)))
                floors.settle(bare)
            return count / watch.seconds

        for size in (1, BATCH):
            name = f"{callers} callers, {len(worlds.names)} worlds{', batches of 100' * (size > 1)}"
            bench.say(f"end to end, {name}")
            many = count if size == 1 else 10 * count

            def ours(many: int = many, size: int = size) -> Awaitable[float]:
                return worlds.settle(many, callers, size)

            measured, least = await in_turn(rounds, ours, floor)
            figures.append(Figure(f"in process, {name}", "commands/s", measured, least, FLOOR))
    bench.notes.append(
        f"In process, {len(worlds.tickers)} writers tick the worlds, each its share."
    )
    return figures
