"""Admission of single commands: one caller, many callers, many worlds."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable

from tests.bench import floors
from tests.bench.bench import Bench, Storage, opened, spawn, still_app
from tests.bench.figures import Budget, Figure, Timed, Watch, counted, in_turn

from perdure.kernel.batch import prepared
from perdure.kernel.ids import BatchId

Admits = Callable[[int], Awaitable[object]]
"""Admits the command of that number."""


async def measure(bench: Bench) -> list[Figure]:
    """Measure single admissions against a bare commit, and concurrent ones against shared ones."""
    with bench.directory() as directory, floors.database(directory / "floor.db") as bare:
        async with opened(directory, still_app()) as storage:
            names = [f"world-{number}" for number in range(bench.scale.worlds)]
            for name in names:
                await storage.worlds.create(name, world_id=name)
            commands = [spawn(number) for number in range(1_000)]
            body = prepared(
                storage.worlds.ref(names[0]).world, BatchId("b"), commands[:1], storage.app.registry
            ).payload
            group = floors.GroupCommit(bare)
            numbers = itertools.count()

            def submit(number: int, worlds: int) -> Awaitable[object]:
                return storage.worlds.submit(
                    names[number % worlds], [commands[number % 1_000]], batch_id=f"b{number}"
                )

            async def admit_alone(number: int) -> None:
                floors.admit(bare, f"s{number}", body)

            figures = await _one_caller(
                bench, storage, numbers, lambda number: submit(number, 1), admit_alone
            )
            for worlds, what in ((1, "one world"), (len(names), f"{len(names)} worlds")):
                figures += await _many_callers(
                    bench,
                    storage,
                    what,
                    _callers(bench, numbers, lambda number, n=worlds: submit(number, n)),
                    _callers(bench, numbers, lambda number: group.admit(f"g{number}", body)),
                )
            group.close()
            return figures


async def _one_caller(
    bench: Bench, storage: Storage, numbers: itertools.count[int], ours: Admits, floor: Admits
) -> list[Figure]:
    bench.say("admission, one caller")
    commits = bench.scale.commits
    before, first = storage.store.syncs, next(numbers)
    measured, bare = await in_turn(
        bench.scale.rounds, _caller(numbers, commits, ours), _caller(numbers, commits, floor)
    )
    admitted = (next(numbers) - first - 1) // 2
    return [
        Figure(
            "one caller",
            "commands/s",
            measured,
            bare,
            "bare idempotent INSERT, WAL, FULL",
            Budget(0.5, at_least=True),
        ),
        Figure(
            "one caller, syncs a command",
            "syncs",
            counted((storage.store.syncs - before) / admitted),
            budget=Budget(1, of="figure"),
        ),
    ]


async def _many_callers(
    bench: Bench, storage: Storage, what: str, ours: Timed, floor: Timed
) -> list[Figure]:
    callers = bench.scale.callers
    bench.say(f"admission, {callers} callers, {what}")
    before = storage.store.syncs
    measured, bare = await in_turn(bench.scale.rounds, ours, floor)
    admitted = 10 * bench.scale.commits * (bench.scale.rounds + 1)
    budget = Budget(0.25, at_least=True) if what == "one world" else None
    return [
        Figure(
            f"{callers} callers, {what}",
            "commands/s",
            measured,
            bare,
            "asyncio group commit, one thread",
            budget,
        ),
        Figure(
            f"{callers} callers, {what}, syncs a command",
            "syncs",
            counted((storage.store.syncs - before) / admitted),
        ),
    ]


def _caller(numbers: itertools.count[int], commits: int, admit: Admits) -> Timed:
    async def run() -> float:
        with Watch() as watch:
            for number in itertools.islice(numbers, commits):
                await admit(number)
        return commits / watch.seconds

    return run


def _callers(bench: Bench, numbers: itertools.count[int], admit: Admits) -> Timed:
    commits = 10 * bench.scale.commits

    async def caller(share: itertools.islice[int]) -> None:
        for number in share:
            await admit(number)

    async def run() -> float:
        share = itertools.islice(numbers, commits)  # one for all: each takes the next number
        with Watch() as watch:
            await asyncio.gather(*(caller(share) for _ in range(bench.scale.callers)))
        return commits / watch.seconds

    return run
