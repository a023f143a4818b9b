"""End to end over HTTP: commands admitted and ticks asked for at once; beside it, a Restate node."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx
from tests.bench import servers
from tests.bench.bench import Bench, as_json, spawn
from tests.bench.figures import Budget, Figure, Sample, Timed, Watch, in_turn
from tests.bench.load import Connection, Generator, Load, connected, spelled
from tests.bench.peers.install import Missing
from tests.bench.servers import KEY, Server

PEER = "Restate over HTTP, one-way calls of a virtual object until all have ended"
PEER_ALONE = "Restate over HTTP, a call of a virtual object, then of what reads its state"
TIMES_A_PEER = Budget(10, at_least=True)
REQUESTS_MAX = 1_000_000
ALONE = 50
ROUNDS_MAX = 4
"""Each takes as long as it takes until everything is settled."""

BATCH = 100
POLL_SECONDS = 0.05
RUNNING = "SELECT count(*) AS running FROM sys_invocation WHERE status != 'completed'"


@dataclass
class _Ours:
    """The emulator, one generator that admits and one that asks for ticks, world after world."""

    server: Server
    worlds: list[str]
    admits: Generator
    ticks: Generator
    tick: int = -1
    spawned: int = 0
    numbers: itertools.count[int] = field(
        default_factory=lambda: itertools.count(step=REQUESTS_MAX)
    )

    @property
    def trusted(self) -> Mapping[str, str]:
        return {name: each for name, each in self.server.headers.items() if each != KEY}

    async def settle(self, requests: int, callers: int, size: int) -> float:
        """Return how many commands a second are admitted and published."""
        load = Load(
            port=self.server.port,
            path=self.server.path,
            body=json.dumps({"commands": [as_json(spawn(number)) for number in range(size)]}),
            worlds=self.worlds,
            callers=callers,
            count=requests,
            first=next(self.numbers),
            headers=self.server.headers,
        )
        with Watch() as watch:
            sending = asyncio.create_task(self.admits.put(load))
            is_last = False
            while not is_last:
                is_last = sending.done()
                await self._tick_all()
            await sending
        self.spawned += requests * size
        await self.check()
        return requests * size / watch.seconds

    async def alone(self) -> float:
        """Send one command, ask for a tick, ask for its entity. Return milliseconds of all three."""
        connection = await connected(self.server.port)
        world, port = self.worlds[0], self.server.port
        path = f"/v1/worlds/{world}"
        admit = Load(
            port=port,
            path=self.server.path,
            body=json.dumps({"commands": [as_json(spawn(1))]}),
            worlds=[world],
            callers=1,
            count=ALONE,
            first=next(self.numbers),
            headers=self.server.headers,
        )
        ticking = replace(admit, path=f"{path}/tick", headers=self.trusted)
        asking = replace(ticking, method="GET", body="")
        with Watch() as watch:
            for number in range(admit.first, admit.first + ALONE):
                told = await _asked(connection, admit, number)
                self.tick += 1
                body = json.dumps({"to_tick": self.tick})
                await _asked(connection, replace(ticking, body=body), number)
                entity = told["receipts"][0]["entity_id"]
                at = f"{path}/entities?components=Position&entity_id={entity}"
                rows = (await _asked(connection, replace(asking, path=at), number))["rows"]
                assert len(rows) == 1
        connection.transport.close()
        self.spawned += ALONE
        await self._tick_all(to=self.tick)  # the others come level
        return watch.ms / ALONE

    async def _tick_all(self, to: int | None = None) -> None:
        self.tick = self.tick + 1 if to is None else to
        await self.ticks.put(
            Load(
                port=self.server.port,
                path="/v1/worlds/{world}/tick",
                body=json.dumps({"to_tick": self.tick}),
                worlds=self.worlds,
                callers=1,
                count=len(self.worlds),
                first=0,
                headers=self.trusted,
            )
        )

    async def check(self) -> None:
        """Ask every world how many entities it has, and whether anything is left to do."""
        address = f"http://127.0.0.1:{self.server.port}/v1/worlds"
        async with httpx.AsyncClient(headers=dict(self.trusted), trust_env=False) as http:
            found = [(await http.get(f"{address}/{world}")).json() for world in self.worlds]
        assert sum(each["entities"] for each in found) == self.spawned
        assert not any(each["pending_commands"] for each in found)


@dataclass
class _Restate:
    """One Restate node, which is sent commands one way and calls its handler for each."""

    server: Server
    worlds: list[str]
    admits: Generator
    numbers: itertools.count[int] = field(
        default_factory=lambda: itertools.count(step=REQUESTS_MAX)
    )

    def _load(self, requests: int, callers: int) -> Load:
        return Load(
            port=self.server.port,
            path=self.server.path,
            body=json.dumps({"commands": [as_json(spawn(1))]}),
            worlds=self.worlds,
            callers=callers,
            count=requests,
            first=next(self.numbers),
            headers=self.server.headers,
        )

    async def settle(self, requests: int, callers: int) -> float:
        address = f"http://127.0.0.1:{self.server.admin_port}/query"
        headers = {"accept": "application/json"}
        async with httpx.AsyncClient(headers=headers, trust_env=False) as http:
            began = time.perf_counter()
            await self.admits.put(self._load(requests, callers))
            # The answer is about a moment after the question, and how long it takes is not theirs.
            asked = time.perf_counter()
            while (await _running(http, address)) > 0:
                await asyncio.sleep(POLL_SECONDS)
                asked = time.perf_counter()
        return requests / (asked - began)

    async def alone(self) -> float:
        connection = await connected(self.server.port)
        world = self.worlds[0]
        call = replace(self._load(ALONE, 1), worlds=[world], path="/world/{world}/apply")
        asking = replace(call, path="/world/{world}/entities", body="", headers={})
        with Watch() as watch:
            for number in range(call.first, call.first + ALONE):
                await _asked(connection, call, number)
                await _asked(connection, asking, number)
        connection.transport.close()
        return watch.ms / ALONE


async def measured(bench: Bench, directory: Path) -> list[Figure]:
    """Measure ours, and Restate if peers are wanted and can be had."""
    worlds = [f"w{number}" for number in range(bench.scale.worlds)]
    callers, requests, rounds = (
        bench.scale.callers,
        bench.scale.requests * 2,
        min(bench.scale.rounds, ROUNDS_MAX),
    )
    async with AsyncExitStack() as stack:
        bench.say("end to end, starting servers")
        server = await stack.enter_async_context(servers.ours(directory / "ours", worlds))
        admits, ticks = [await Generator.start(servers.ENVIRONMENT) for _ in range(2)]
        for each in (admits, ticks):
            stack.push_async_callback(each.stop)
        ours = _Ours(server, worlds, admits, ticks)
        peer = await _peer(bench, stack, directory, worlds, admits) if bench.peers else None
        bench.say("end to end over HTTP, one caller")
        first: list[Timed] = [ours.alone, *([peer.alone] if peer else [])]
        figures = [_figure("one caller: submit, tick, query", "ms", await in_turn(rounds, *first))]
        name = f"{callers} callers, {len(worlds)} worlds"
        bench.say(f"end to end over HTTP, {name}")

        async def singles() -> float:
            return await ours.settle(requests, callers, 1)

        async def batches() -> float:
            return await ours.settle(max(requests // 5, 1), callers, BATCH)

        async def theirs() -> float:
            assert peer is not None
            return await peer.settle(requests, callers)

        many = await in_turn(rounds, singles, batches, *([theirs] if peer else []))
        figures.append(_figure(name, "commands/s", [many[0], *many[2:]], TIMES_A_PEER))
        figures.append(_figure(f"{name}, batches of {BATCH}", "commands/s", many[1:]))
    return figures


def _figure(name: str, unit: str, samples: list[Sample], budget: Budget | None = None) -> Figure:
    if len(samples) == 1:
        return Figure(f"over HTTP, {name}", unit, samples[0])
    peer = PEER_ALONE if unit == "ms" else PEER
    return Figure(f"over HTTP, {name}", unit, *samples, peer, budget)


async def _peer(
    bench: Bench, stack: AsyncExitStack, directory: Path, worlds: list[str], admits: Generator
) -> _Restate | None:
    try:
        server = await stack.enter_async_context(servers.restate(directory))
    except Missing as missing:
        bench.notes.append(f"Restate is left out: {missing}.")
        return None
    bench.notes.append(
        f"Peer: {' and '.join(servers.RESTATE)} on Node, one node, all settings default but ports,"
        " directory and telemetry, which is off: its log is synced before it answers. Its clock"
        " stops when the question is sent whose answer is that no call runs; it is asked every"
        f" {POLL_SECONDS * 1e3:.0f} ms. It has no batches: beside ours of {BATCH} stand its single"
        " calls, and no budget is on that."
    )
    return _Restate(server, worlds, admits)


async def _asked(connection: Connection, load: Load, number: int) -> Any:
    status, body = await connection.ask(spelled(load, number))
    assert status in load.accepted, (load.path, status, body[:500])
    return json.loads(body) if body else None


async def _running(http: httpx.AsyncClient, address: str) -> int:
    told = await http.post(address, json={"query": RUNNING})
    told.raise_for_status()
    running: int = told.json()["rows"][0]["running"]
    return running
