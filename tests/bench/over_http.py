"""Admission over HTTP: ours by the emulator, the least handler there could be, and a Durable Object."""

from __future__ import annotations

import itertools
import json
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from tests.bench import servers
from tests.bench.bench import Bench, as_json, spawn
from tests.bench.figures import Budget, Figure, Sample, Timed, in_turn
from tests.bench.load import Generator, Load, Told
from tests.bench.peers.install import Missing
from tests.bench.servers import Server

FLOOR = "uvicorn, one handler, group commit of command and outbox rows"
PEER = "workerd Durable Object over HTTP, command and outbox rows"

REQUESTS_MAX = 1_000_000
"""Numbers of a round: none is met twice."""


@dataclass(frozen=True)
class Shape:
    """Who asks for what."""

    name: str
    callers: int
    worlds: int
    size: int = 1
    """Commands of one request."""
    budget: float | None = None
    """Of a Durable Object's rate."""


def shapes(bench: Bench) -> list[Shape]:
    callers, worlds = bench.scale.callers, bench.scale.worlds
    return [
        Shape("one caller", 1, 1, budget=1),
        Shape(f"{callers} callers, one world", callers, 1, budget=1.5),
        Shape(f"{callers} callers, {worlds} worlds", callers, worlds, budget=1.2),
        Shape("batches of 100, one caller", 1, 1, size=100),
    ]


async def measure(bench: Bench) -> list[Figure]:
    """Measure what a generator in a process of its own gets admitted, server after server."""
    worlds = [f"w{number}" for number in range(bench.scale.worlds)]
    figures: list[Figure] = []
    async with AsyncExitStack() as stack:
        directory = stack.enter_context(bench.directory())
        bench.say("starting servers")
        asked = [
            await stack.enter_async_context(servers.ours(directory / "ours", worlds)),
            await stack.enter_async_context(servers.bare(directory)),
        ]
        if bench.peers:
            asked += await _peer(bench, stack, directory)
        generator = await Generator.start(servers.ENVIRONMENT)
        stack.push_async_callback(generator.stop)
        numbers = itertools.count(step=REQUESTS_MAX)
        for shape in shapes(bench):
            bench.say(f"over HTTP, {shape.name}")
            figures += await _of_shape(bench, generator, shape, asked, numbers)
    return figures


async def _peer(bench: Bench, stack: AsyncExitStack, directory: Path) -> list[Server]:
    try:
        found = await stack.enter_async_context(servers.workerd(directory))
    except Missing as missing:
        bench.notes.append(f"workerd is left out: {missing}.")
        return []
    bench.notes.append(
        f"Peer: {servers.WORKERD}, `workerd serve`, SQLite storage on the local disk, all settings"
        " default: a sync of the object's log before each reply. It admits and does no more."
    )
    return [found]


async def _of_shape(
    bench: Bench,
    generator: Generator,
    shape: Shape,
    asked: list[Server],
    numbers: itertools.count[int],
) -> list[Figure]:
    told: list[list[Told]] = [[] for _ in asked]
    rounds = [
        _round(bench, generator, shape, *each, numbers) for each in zip(asked, told, strict=True)
    ]
    rates = await in_turn(bench.scale.rounds, *rounds)
    name, ours, floor = shape.name, rates[0], rates[1]
    figures = [Figure(name, "commands/s", ours, floor, FLOOR)]
    if len(rates) > 2:
        budget = None if shape.budget is None else Budget(shape.budget, at_least=True)
        figures.append(
            Figure(f"{name}, against a peer", "commands/s", ours, rates[2], PEER, budget)
        )
    tail = last_percent(_requests(bench, shape))
    for unit, of in (("p50", lambda each: each.p50_ms), (tail, lambda each: each.p99_ms)):
        # The first round warmed up.
        samples = [Sample(tuple(of(each) for each in held[1:])) for held in told[:2]]
        figures.append(Figure(f"{name}, {unit}", "ms", *samples, FLOOR))
    busy = max(each.cpu_seconds / each.seconds for held in told for each in held)
    bench.notes.append(f"{name}: the generator took at most {busy:.2f} of one CPU.")
    return figures


def last_percent(requests: int) -> str:
    """Name the 99th percentile for what it is: of a hundred requests or fewer, it is the slowest."""
    return "p99" if requests > 100 else f"slowest of {requests} requests"


def _requests(bench: Bench, shape: Shape) -> int:
    """Return how many requests a round has."""
    count = bench.scale.requests * (1 if shape.callers == 1 else 5)
    return max(1, count // 10) if shape.size > 1 else count


def _round(
    bench: Bench,
    generator: Generator,
    shape: Shape,
    server: Server,
    told: list[Told],
    numbers: itertools.count[int],
) -> Timed:
    commands = [as_json(spawn(number)) for number in range(shape.size)]

    async def run() -> float:
        load = Load(
            port=server.port,
            path=server.path,
            body=json.dumps({"commands": commands}),
            worlds=[f"w{number}" for number in range(shape.worlds)],
            callers=shape.callers,
            count=_requests(bench, shape),
            first=next(numbers),
            headers=server.headers,
        )
        found = await generator.put(load)
        told.append(found)
        return found.rate * shape.size

    return run
