"""Worlds whose lives are told on every store: who opens them, who dies, who waits."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from tests.runtime.harness import Clock, Harness, fresh_app
from tests.support import stores

from perdure import App
from perdure.kernel.caller import LOCAL
from perdure.kernel.commit import Commit
from perdure.kernel.view import Decision, Reads, View
from perdure.lake.objects import LocalObjects
from perdure.runtime.close import Destroyed, destroy
from perdure.runtime.private import PrivateGrip, private_world

LEASE = 60_000

Opening = Callable[..., AbstractAsyncContextManager[Harness]]


def opening_on(kind: str, directory: Path, address: str | None = None) -> Opening:
    """Return what opens a harness on empty data of one kind of store."""
    opener = {
        "memory": stores.memory,
        "sqlite": lambda: stores.sqlite(directory),
        "dynamodb": lambda: stores.dynamodb_http(address or ""),
    }[kind]

    @contextlib.asynccontextmanager
    async def opened(app: App | None = None) -> AsyncIterator[Harness]:
        async with opener() as open_store:
            objects = LocalObjects(directory / "objects")
            h = Harness(await open_store(), objects, app or fresh_app(), Clock())
            h.open_store = open_store  # type: ignore[attr-defined]  # for rivals of their own
            yield h

    return opened


class GatedStore:
    """Holds commits back until its gate is opened, and says when the first one waits."""

    def __init__(self, store: Any) -> None:
        self.inner = store
        self.gate, self.waiting = asyncio.Event(), asyncio.Event()

    async def load(self, reads: Reads) -> View:
        return await self.inner.load(reads)

    async def commit(self, commit: Commit) -> None:
        self.waiting.set()
        await self.gate.wait()
        await self.inner.commit(commit)

    async def close(self) -> None:
        """Leave the store open: it belongs to the others."""


class Beats:
    """Pauses that last until a test lets them end."""

    def __init__(self) -> None:
        self.asked: list[float] = []
        self._turn = asyncio.Semaphore(0)

    async def __call__(self, seconds: float) -> None:
        self.asked.append(seconds)
        await self._turn.acquire()

    def beat(self) -> None:
        self._turn.release()


async def no_pause(_: float) -> None:
    await asyncio.sleep(0)


def ending(h: Harness, world: str = "w", **options: Any):
    """Destroy a world as a process of its own would, and return what is told of it."""
    means = options.pop("ticker", None) or h.ticker(options.pop("holder", "eve"), **options)
    return ended(means, h.worlds.ref(world))


async def ended(ticker: Any, ref: Any) -> Destroyed:
    return await destroy(ticker.means, ref, lease_ms=LEASE, by=LOCAL)


def private(
    h: Harness, *, beats: Any = None, authority: Any = None, **options: Any
) -> AbstractAsyncContextManager[PrivateGrip]:
    """Enter a private world of the harness."""
    ticker = h.ticker("unused", authority=authority or h.authority)
    means = ticker.means
    object.__setattr__(means, "pause", beats or Beats())
    name = options.pop("name", "evidence")
    return private_world(means, h.worlds, name, world_id="p", lease_ms=LEASE, **options)


async def kinds(h: Harness, world: str = "w") -> list[str]:
    """Return the kinds of a world's log entries."""
    return [entry.kind for entry in await h.worlds.log(world, limit=1_000)]


class Overwrite:
    """Puts a record in the place of whatever is there."""

    once = False

    def __init__(self, record):
        self.record = record

    @property
    def stream(self):
        return self.record.partition

    def reads(self):
        return Reads(keys=(self.record.key,))

    def decide(self, view, now):
        view.get(self.record.key)
        return Decision(None, (self.record,))
