"""Following for tests: a host whose pauses pass at once, things to attach, and writes to stage."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from perdure.kernel.documents.content import base, delta
from perdure.kernel.documents.places import Address
from perdure.kernel.documents.tables import Table
from perdure.kernel.documents.writes import ChangeDocument, CreateDocument
from perdure.kernel.ids import DocumentId
from perdure.runtime.documents.follow.host import Host, Observation, Observer
from perdure.runtime.documents.follow.sources import Frame, Watch

NOTES = Table(
    owner="app",
    name="notes",
    columns={"id": "int", "state": "str", "size": "int"},
    key=("id",),
    indexes={},
)


SECONDS = 60
TURNS = 10_000
"""Of the loop, before it waits for somebody who is not on it."""


class Reports:
    """What a host has reported, and the pauses that it took."""

    def __init__(self) -> None:
        self.errors: list[Exception] = []
        self.pauses: list[float] = []

    async def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        await asyncio.sleep(0)


def host(reports: Reports | None = None) -> Host:
    told = Reports() if reports is None else reports
    return Host(told.pause, told.errors.append)


class Thing:
    """Something to follow that a test changes by hand."""

    def __init__(self, value: Any = None) -> None:
        self.value = value
        self.observer: Observer
        self.attached = 0
        self.detached = 0
        self.early: list[list[Any]] = []
        """Operations that it tells before the attachment is done."""

    async def attach(self, observer: Observer) -> Observation | None:
        self.observer = observer
        self.attached += 1
        for ops in self.early:
            observer.change(ops)
        await asyncio.sleep(0)
        return Observation(self.value, self._detach)

    def _detach(self) -> None:
        self.detached += 1

    def set(self, value: Any) -> None:
        self.observer.change([["s", ["n"], value]])


async def turn() -> None:
    """Let everything happen that waits for the next turns of the loop."""
    for _ in range(5):
        await asyncio.sleep(0)


async def frames(watch: Watch) -> list[Frame]:
    """Return the frames that wait."""
    return [await anext(watch) for _ in range(watch.pending)]


async def until_end(watch: Watch) -> list[Frame]:
    return [frame async for frame in watch]


def address(key: str | None = None, kind: str = "note") -> Address:
    return Address("app", "main", kind, key)


def create(key: str | None = None, value: Any = None, *, history: Any = "latest") -> CreateDocument:
    content = base(1, {"n": 0} if value is None else value)
    return CreateDocument(address(key), history, content).checked()


def set_to(id: int, value: Any, field: str = "n") -> ChangeDocument:
    return ChangeDocument(DocumentId(id), delta(1, [["s", [field], value]]))


async def until(holds: Callable[[], object]) -> None:
    """Let the loop turn until something holds: at once, or when threads and processes are done."""
    turns = 0
    async with asyncio.timeout(SECONDS):
        while not holds():
            turns += 1
            await asyncio.sleep(0 if turns < TURNS else 0.01)
