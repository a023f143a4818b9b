"""Parts: where the time of an admission goes, one caller, step by step."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

from tests.bench.bench import Bench, spawn, still_app, wired
from tests.bench.figures import Figure, Sample
from tests.support.worldly import World

from perdure.authority import bodies, budget
from perdure.authority.sqlite import SqliteStore
from perdure.kernel.admit import Admit
from perdure.kernel.batch import Batch, prepared
from perdure.kernel.commit import Commit, derived
from perdure.kernel.ids import BatchId, Instant, Token
from perdure.kernel.view import ABSENT, Stored, Version, View, written

REPEATS = 300
NOW = Instant(1_800_000_000_000)
TOKEN = Token("0" * 32)


class TimedStore(SqliteStore):
    """A store that commits at once, and knows what of an admission was SQLite's."""

    busy = 0.0
    """Seconds of the processor."""
    waited = 0.0
    """Seconds beside it: the sync, and whoever else wanted the processor."""

    async def _applied(self, commits: list[Commit]) -> Any:
        began, busy = time.perf_counter(), time.thread_time()
        outcomes = await super()._applied(commits)
        busy = time.thread_time() - busy
        self.busy += busy
        self.waited += time.perf_counter() - began - busy
        return outcomes


async def measure(bench: Bench) -> list[Figure]:
    """Measure the parts of an admission of 1, 100 and 10,000 commands, in µs a command."""
    figures = []
    for size in (1, *(each for each in bench.scale.batches if each != 1_000)):
        bench.say(f"parts of an admission of {size:,}")
        figures += [
            Figure(
                f"{size:,} at once: {name}",
                "µs",
                Sample(tuple(each * 1e6 / size for each in times)),
            )
            for name, times in [*_steps(bench, size), *await _whole(bench, size)]
        ]
    return figures


def _steps(bench: Bench, size: int) -> Iterator[tuple[str, list[float]]]:
    """Time each step by itself, again and again on warm caches: the processor's time."""
    registry = still_app().registry
    commands = [spawn(number) for number in range(size)]
    times = max(3, REPEATS // size)
    numbers = count()

    def batch() -> Batch:
        return prepared(World.ref.world, BatchId(f"b{next(numbers)}"), commands, registry)

    def asked() -> tuple[Admit, View]:
        admit = Admit(World.ref, batch())
        reads = admit.reads()
        view = View({}, guesses={**guesses, **dict.fromkeys(reads.absent, ABSENT)})
        view.name(reads.keys)
        return admit, view

    def decide(each: tuple[Admit, View]) -> None:
        admit, view = each
        view.absorb(written(admit.decide(view, NOW).writes))

    def spell(each: tuple[Admit, View]) -> None:
        packed = bodies.packed(derived(each[1], TOKEN), {}, lambda: TOKEN)
        budget.check_commit(packed.commit)

    world = World()
    world.paper.ask(Admit(world.ref, batch()))
    guesses: Any = {
        each.key: (Stored(Version(1, TOKEN), each.body()), each)
        for each in (world.head, *world.pages)
    }
    seen = []
    for _ in range(bench.scale.rounds):
        ready = [asked() for _ in range(times)]
        seen.append((_each(times, batch), _over(ready, decide), _over(ready, spell)))
    for name, column in zip(
        ("prepare", "decide", "spell and pack"), zip(*seen, strict=True), strict=True
    ):
        yield f"{name} (processor, warm)", list(column)


def _each(times: int, work: Callable[[], object]) -> float:
    began = time.thread_time()
    for _ in range(times):
        work()
    return (time.thread_time() - began) / times


def _over(ready: list[tuple[Admit, View]], work: Callable[[tuple[Admit, View]], None]) -> float:
    began = time.thread_time()
    for each in ready:
        work(each)
    return (time.thread_time() - began) / len(ready)


async def _whole(bench: Bench, size: int) -> list[tuple[str, list[float]]]:
    """Time whole admissions, and what of them is SQLite's."""
    commands = [spawn(number) for number in range(size)]
    times = max(3, bench.scale.commits // size)
    names = ("SQLite (processor)", "SQLite (waiting, sync)", "all (processor)", "all (wall)")
    seen = []
    with bench.directory() as directory:
        store = await TimedStore.open(directory / "authority.db", seconds=float)
        storage = wired(directory, store, still_app())
        await storage.worlds.create("w", world_id="w")
        for _ in range(bench.scale.rounds):
            before = (store.busy, store.waited, time.process_time(), time.perf_counter())
            for _ in range(times):
                await storage.worlds.submit("w", commands)
            after = (store.busy, store.waited, time.process_time(), time.perf_counter())
            seen.append([(b - a) / times for a, b in zip(before, after, strict=True)])
        await storage.authority.close()
    return [
        (name, list(column)) for name, column in zip(names, zip(*seen, strict=True), strict=True)
    ]
