"""A client under whom servers are killed: many callers, and every answer is written down."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from tests.proof.history import Recorder, read_history

from perdure.kernel.errors import Contended, OutcomeUnknown, Refused, StoreUnavailable

WORLDS = ("north", "south", "west")
BATCH_MAX = 4
PAUSE_SECONDS = 0.05
AGAIN_SECONDS = 0.2
AGAIN_EVERY = 7
"""At the end every so many batches are sent once more."""


class Answered(Refused):
    """What a server refused, under its own code."""

    def __init__(self, problem: dict[str, Any]) -> None:
        super().__init__(expected="an admission", found=problem["detail"])
        self.code = problem["code"]  # type: ignore[misc]  # of this one answer


@dataclass(frozen=True)
class Asking:
    """What one client is told: where to ask, as whom, and where to write down what it hears."""

    address: str
    token: str
    history: Path
    over: Path
    """A file: once it is there, nothing new is begun."""

    callers: int
    seed: int

    def begin(self) -> None:
        """Ask until it is over, and then until everything is answered."""
        asyncio.run(self._asked())

    async def _asked(self) -> None:
        before = read_history([self.history]) if self.history.exists() else []
        recorder = Recorder(self.history, f"client{len(before)}")
        asked = {call.asked["batch"] for call in before if call.what == "admit"}
        heard = {
            call.asked["batch"] for call in before if call.is_answered and "batch" in call.asked
        }
        first = 1 + max((int(batch[1:]) for batch in asked), default=0)
        numbers = itertools.count(first)
        limits = httpx.Limits(max_connections=self.callers)
        headers = {"Authorization": f"Bearer {self.token}"}
        async with httpx.AsyncClient(
            base_url=self.address, headers=headers, limits=limits, timeout=120, trust_env=False
        ) as http:
            line = Line(http, recorder)
            for world in WORLDS:
                await line.create(world)
            unheard = iter(sorted(asked - heard))
            await asyncio.gather(
                *(self._call(line, n, unheard, numbers) for n in range(self.callers))
            )
            every = [f"b{number}" for number in range(1, next(numbers), AGAIN_EVERY)]
            for batch in every:
                await line.admit(batch)
        recorder.close()

    async def _call(
        self, line: Line, caller: int, unheard: Iterator[str], numbers: Iterator[int]
    ) -> None:
        chance = random.Random(f"{self.seed} {caller}")
        for batch in unheard:
            await line.admit(batch)
        while not self.over.exists():
            await line.admit(f"b{next(numbers)}")
            await asyncio.sleep(chance.random() * PAUSE_SECONDS)


@dataclass(frozen=True)
class Line:
    """One connection to whoever serves, written down."""

    http: httpx.AsyncClient
    recorder: Recorder

    async def create(self, world: str) -> None:
        asked = {"world": world, "name": world}
        body = {"name": world, "world_id": world}
        await self._until_answered("create", asked, "/v1/worlds", body, lambda _: None)

    async def admit(self, batch: str) -> None:
        """Send a batch until it is answered. What it holds follows from its name."""
        number = int(batch[1:])
        world = WORLDS[number % len(WORLDS)]
        commands = [_spawn(number)] * size_of(number)
        asked = {"world": world, "batch": batch, "content": batch, "commands": commands}
        body = {"batch_id": batch, "commands": commands}
        path = f"/v1/worlds/{world}/commands"
        await self._until_answered("admit", asked, path, body, _receipts)

    async def _until_answered(
        self, what: str, asked: dict[str, Any], path: str, body: Any, told: Any
    ) -> None:
        while True:
            posted = asyncio.ensure_future(self._posted(path, body))
            await self.recorder.call(what, asked, posted, told)
            if posted.exception() is None or isinstance(posted.exception(), Refused):
                return  # the reckoning tells of a refusal
            await asyncio.sleep(AGAIN_SECONDS)

    async def _posted(self, path: str, body: Any) -> dict[str, Any]:
        try:
            reply = await self.http.post(path, json=body)
        except httpx.ConnectError as error:
            raise StoreUnavailable(expected="a server", found=str(error)) from error
        except httpx.TransportError as error:
            raise OutcomeUnknown(expected="an answer", found=repr(error)) from error
        found: dict[str, Any] = reply.json()
        if reply.is_success:
            return found
        kinds = {kind.code: kind for kind in (OutcomeUnknown, StoreUnavailable, Contended)}
        kind = kinds.get(found["code"])
        raise Answered(found) if kind is None else kind(expected="an answer", found=found["detail"])


def size_of(number: int) -> int:
    """Return how many ships a batch spawns."""
    return 1 + number % BATCH_MAX


def _spawn(number: int) -> dict[str, Any]:
    return {"operation": "spawn", "components": {"Position": {"x": 0.0, "y": float(number)}}}


def _receipts(answer: dict[str, Any]) -> dict[str, Any]:
    receipts = [
        [each["command_id"], each["sequence"], each["entity_id"]] for each in answer["receipts"]
    ]
    return {"replayed": answer["replayed"], "receipts": receipts}
