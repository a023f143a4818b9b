"""DBOS on SQLite beside ours, in one run: commands admitted, and commands settled."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

from tests.bench.bench import Bench, Storage, as_json, opened, spawn, still_app
from tests.bench.figures import Figure, Sample, Timed, Watch, in_turn
from tests.bench.peers.child import Child, started
from tests.bench.peers.install import Missing, from_pypi

PACKAGE = "dbos==3.4.0"
BATCH = 100
ROUNDS_MAX = 4
MODES = {
    "defaults": "DBOS, SQLite, defaults",
    "wal": "DBOS, SQLite in WAL, polled every 10 ms",
}


@dataclass
class _Ours:
    storage: Storage
    callers: int
    numbers: itertools.count[int] = field(default_factory=itertools.count)

    async def sent(self, count: int, size: int, callers: int) -> float:
        commands = [spawn(number) for number in range(size)]
        share = iter(range(count // size))

        async def caller() -> None:
            for _ in share:
                await self.storage.worlds.submit("w", commands, batch_id=f"b{next(self.numbers)}")

        with Watch() as watch:
            await asyncio.gather(*(caller() for _ in range(callers)))
        return count // size * size / watch.seconds

    async def settled(self, count: int) -> float:
        """Admit as many callers do, tick meanwhile, and stop the clock when all is published."""
        ref, ticker = self.storage.worlds.ref("w"), self.storage.ticker()
        with Watch() as watch:
            sending = asyncio.create_task(self.sent(count, 1, self.callers))
            done = 0
            while done < count:
                report, _ = await ticker.tick(ref, await ticker.take(ref), keep=True)
                done += report.applied
            await sending
        return count / watch.seconds


async def measure(bench: Bench) -> list[Figure]:
    """Measure the same calls of both, round by round. Nothing without the peer."""
    try:
        bench.say("dbos, installing")
        python = await from_pypi("dbos")
    except Missing as missing:
        bench.notes.append(f"{PACKAGE} is left out: {missing}.")
        return []
    bench.notes.append(
        f"Peer: {PACKAGE}. Defaults: SQLite's rollback journal, synced in full, notifications"
        " polled every second. The other row forces WAL, still synced in full, and polls every 10"
        f" ms: WAL is no setting of DBOS. PostgreSQL, which it recommends for production, is not measured. {bench.scale.callers} callers"
        " are threads there and tasks here. Settled is: received by a workflow there, applied and"
        " published in a tick here. Both are in process, messages are our commands, each with an"
        " id of its own."
    )
    async with AsyncExitStack() as stack:
        directory = stack.enter_context(bench.directory())
        storage = await stack.enter_async_context(opened(directory, still_app()))
        await storage.worlds.create("w", world_id="w")
        children = [
            await stack.enter_async_context(
                started(python, "dbos_child.py", directory / mode, mode)
            )
            for mode in MODES
        ]
        return await _measured(bench, _Ours(storage, bench.scale.callers), children)


async def _measured(bench: Bench, ours: _Ours, children: Sequence[Child]) -> list[Figure]:
    callers, commits = bench.scale.callers, bench.scale.commits
    message = as_json(spawn(1))
    # The drain before settling: what is admitted and open is no part of it.
    cases: list[tuple[str, Any, str, dict[str, Any]]] = [
        ("one caller", lambda: ours.sent(commits, 1, 1), "send", {"count": commits, "threads": 1}),
        (
            f"{callers} callers",
            lambda: ours.sent(commits, 1, callers),
            "send",
            {"count": commits, "threads": callers},
        ),
        (
            f"batches of {BATCH}",
            lambda: ours.sent(10 * commits, BATCH, 1),
            "bulk",
            {"count": 10 * commits, "size": BATCH},
        ),
    ]
    figures = []
    for name, sent, what, values in cases:
        figures += await _figures(bench, f"admitted, {name}", sent, children, what, message, values)
    ref, ticker = ours.storage.worlds.ref("w"), ours.storage.ticker()
    while (await ours.storage.worlds.describe("w")).pending_commands:
        await ticker.tick(ref, await ticker.take(ref), keep=True)
    await ticker.release(ref, await ticker.take(ref))
    few = max(commits // 5, 1)
    values = {"count": few, "threads": callers}
    name = f"settled, {callers} callers, one world"
    figures += await _figures(
        bench, name, lambda: ours.settled(few), children, "settle", message, values
    )
    return figures


async def _figures(
    bench: Bench,
    name: str,
    sent: Timed,
    children: Sequence[Child],
    what: str,
    message: dict[str, Any],
    values: dict[str, Any],
) -> list[Figure]:
    bench.say(f"dbos, {name}")

    def asked(child: Child) -> Timed:
        async def ask() -> float:
            found: float = await child.ask(what, message=message, **values)
            return found

        return ask

    rounds = min(bench.scale.rounds, ROUNDS_MAX)
    ours, *theirs = await in_turn(rounds, sent, *map(asked, children))
    pairs: list[tuple[str, Sample]] = list(zip(MODES, theirs, strict=True))
    return [
        Figure(f"{name}, against {mode}", "commands/s", ours, sample, MODES[mode])
        for mode, sample in pairs
    ]
