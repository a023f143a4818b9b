"""A world in a directory: memory or SQLite authority, local objects, clock and tokens by hand."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any, ClassVar

from perdure import App, Component
from perdure.authority.engine import Authority
from perdure.authority.memory import MemoryStore
from perdure.kernel.errors import ConsumerBehind, PerdureError
from perdure.kernel.ids import Holder, Instant, RunId, StorageId, Token
from perdure.kernel.places import WAKE_SHARDS
from perdure.kernel.rest import Wakes
from perdure.kernel.view import Decision, Reads
from perdure.lake.objects import LocalObjects
from perdure.runtime.dispatch import look
from perdure.runtime.run import run_ticks
from perdure.runtime.serve import serve
from perdure.runtime.tick import Means, Ticker
from perdure.runtime.worlds import Worlds

START = 1_800_000_000_000


class Place(Component):
    x: float
    y: float


class Speed(Component):
    x: float
    y: float


class Fuel(Component):
    litres: int


class Clock:
    """Time that only moves when told to."""

    def __init__(self) -> None:
        self.time = START

    def __call__(self) -> Instant:
        return Instant(self.time)

    def advance(self, ms: int) -> None:
        self.time += ms


@dataclass(frozen=True)
class Written:
    """A request that writes one record, whatever it says."""

    record: Any
    once: ClassVar[bool] = False

    @property
    def stream(self):
        return self.record.partition

    def reads(self):
        return Reads(keys=(self.record.key,))

    def decide(self, view, now):
        view.get(self.record.key)
        return Decision(None, (self.record,))


async def no_pause(_: float) -> None:
    """Wait for nothing."""


def tokens(prefix: str = "t"):
    """Return a source of tokens that counts."""
    counter = itertools.count()
    return lambda: Token(f"{prefix}{next(counter)}")


def runs():
    """Return a source of run ids that counts: UUIDs of version 7, as the wiring makes them."""
    counter = itertools.count()
    return lambda: RunId(f"01890000-0000-7000-8000-{next(counter):012d}")


def fresh_app() -> App:
    """Return an application with three components and no processor."""
    app = App("test")
    for component in (Place, Speed, Fuel):
        app.component(component)
    return app


@dataclass
class Round:
    """What one look at what is due, and serving all of it, came to."""

    ticked: tuple[Any, ...] = ()
    failed: tuple[Any, ...] = ()
    retired: tuple[Any, ...] = ()


@dataclass
class Harness:
    """Everything one storage needs, and as many writers as a test wants."""

    store: Any
    objects: Any
    app: App
    clock: Clock

    def __post_init__(self) -> None:
        self.new_token = tokens()
        self.authority = self.rival_authority("a")
        self.worlds = Worlds(
            self.authority,
            StorageId("storage"),
            self.app.registry,
            new_token=self.new_token,
            new_run=runs(),
            pause=no_pause,
        )

    def rival_authority(self, prefix: str) -> Authority:
        return Authority(self.store, self.clock, tokens(prefix), pause=no_pause)

    def ticker(self, holder: str = "ann", **options: Any) -> Ticker:
        authority = options.pop("authority", self.authority)
        app = options.pop("app", self.app)
        means = Means(authority, self.objects, app, self.clock, tokens(f"{holder}-"), no_pause)
        return Ticker(means, Holder(holder), **options)

    async def run(self, world: str, to_tick: int, ticker: Ticker | None = None):
        return await run_ticks(
            ticker or self.ticker(),
            self.worlds.ref(world),
            to_tick=to_tick,
            deadline=Instant(self.clock.time + 600_000),
        )

    async def put(self, record):
        """Write one record, as if by whoever it belongs to."""
        await self.authority.execute(Written(record))

    async def hints(self):
        """Return every wake hint there is."""
        far = Instant(self.clock.time + 10**12)
        shards = [await self.authority.execute(Wakes(n, far)) for n in range(WAKE_SHARDS)]
        return [hint for shard in shards for hint in shard]

    async def look(self, storage: str = "storage"):
        return await look(self.authority, StorageId(storage), now=self.clock, go_on=lambda: True)

    async def due(self, ticker: Ticker, storage: str = "storage"):
        """Do once what a dispatch, a queue and a writer do."""
        found, done = await self.look(storage), Round()
        done.failed += found.failed
        for due in found.due:
            try:
                served = await serve(ticker, due, deadline=Instant(self.clock.time + 600_000))
            except ConsumerBehind:
                continue
            except PerdureError as error:
                done.failed += ((due.ref, error),)
                continue
            done.ticked += served.ticks
            done.retired += (due.ref,) if served.retired else ()
        return done


def harness(directory: Any, app: App | None = None, store: Any = None) -> Harness:
    """Return a harness on a memory store and files in ``directory``."""
    return Harness(
        store if store is not None else MemoryStore(),
        LocalObjects(directory / "objects"),
        fresh_app() if app is None else app,
        Clock(),
    )
