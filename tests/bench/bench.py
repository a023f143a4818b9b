"""What every case is given: how much to do, a place on the disk, and a storage as it is wired."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa

from perdure import App, Component, Spawn, Update
from perdure.api.wiring import run_id
from perdure.authority import system
from perdure.authority.engine import Authority
from perdure.authority.sqlite import SqliteStore
from perdure.authority.store import Store
from perdure.kernel.ids import Holder, StorageId
from perdure.kernel.places import WorldRef
from perdure.lake.objects import LocalObjects
from perdure.runtime.tick import Means, Ticker
from perdure.runtime.worlds import Worlds

STORAGE = StorageId("bench")
BATCH = 10_000


class Position(Component):
    x: float
    y: float


class Velocity(Component):
    dx: float
    dy: float


def still_app() -> App:
    """Return an application with two components and no processor."""
    app = App("bench")
    app.component(Position)
    app.component(Velocity)
    return app


def moving_app() -> App:
    """Return an application whose one processor changes every entity in every tick."""
    app = still_app()

    @app.processor(Position, Velocity)
    def drift(rows: pa.Table, tick: Any) -> pa.Table:
        for axis in ("x", "y"):
            name = f"position__{axis}"
            moved = rows[name].to_numpy() + rows[f"velocity__d{axis}"].to_numpy()
            rows = rows.set_column(rows.schema.get_field_index(name), name, pa.array(moved))
        return rows

    return app


def spawn(number: int) -> Spawn:
    """Return a command; sevenths have long spellings, as measured values do."""
    return Spawn(
        Position(x=number * 0.5, y=number * 0.25), Velocity(dx=(number % 97 + 1) / 7, dy=0.5)
    )


def update(entity: int) -> Update:
    return Update(Position(x=entity + 0.5, y=0.5), entity_id=entity)


def as_json(command: Spawn | Update) -> dict[str, Any]:
    """Return the values that JSON would hold for a command."""
    values = {name: each.model_dump() for name, each in command.components.items()}
    return {**command.model_dump(exclude={"components"}, exclude_none=True), "components": values}


@dataclass(frozen=True)
class Scale:
    """How much a run does."""

    name: str
    rounds: int
    commits: int
    """Commits of one round with one caller; with many callers, ten times as many."""
    callers: int
    worlds: int
    batches: tuple[int, ...]
    settled: int
    entities: tuple[int, ...]
    history: tuple[int, ...]
    """Ticks of history, the first of them the one that the others are held against."""
    landed_ticks: int
    landed_rows: int
    """Rows of one of these ticks."""
    imports: int
    month_days: int
    """Days of the month that are replayed, from the first on."""
    store_commits: int
    """Commits of one document store, to see what stays in memory."""
    requests: int
    """Requests of one round over HTTP with one caller; with many callers, five times as many."""


FULL = Scale(
    name="full",
    rounds=7,
    commits=1_000,
    callers=32,
    worlds=100,
    batches=(100, 1_000, 10_000),
    settled=10_000,
    entities=(1_000, 10_000, 100_000, 1_000_000),
    history=(20, 1_000, 10_000),
    landed_ticks=1_500,
    landed_rows=100,
    imports=7,
    month_days=31,
    store_commits=100_000,
    requests=1_000,
)
QUICK = Scale(
    name="quick",
    rounds=3,
    commits=100,
    callers=8,
    worlds=10,
    batches=(100, 1_000),
    settled=1_000,
    entities=(1_000, 10_000),
    history=(20, 100),
    landed_ticks=100,
    landed_rows=100,
    imports=1,
    month_days=1,
    store_commits=1_000,
    requests=40,
)


@dataclass
class Bench:
    """One case: its scale, its directory, someone to tell what is going on, and what to note."""

    root: Path
    scale: Scale
    say: Callable[[str], None] = lambda _: None
    peers: bool = False
    """Whether other products are measured beside ours, which installs them."""
    notes: list[str] = field(default_factory=list)
    """What whoever reads the figures must know: settings of peers, what was left out and why."""
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    @contextmanager
    def directory(self) -> Iterator[Path]:
        """Give a fresh directory, gone afterwards: what was measured needs no room later."""
        with TemporaryDirectory(dir=self.root, prefix=f"case-{next(self._numbers)}-") as made:
            yield Path(made)


@dataclass(frozen=True)
class Storage:
    """One storage, wired as in production but for the settings."""

    root: Path
    store: Any
    authority: Authority
    worlds: Worlds
    app: App

    @property
    def objects(self) -> LocalObjects:
        return LocalObjects(self.root / "objects")

    def ticker(self, holder: str = "bench") -> Ticker:
        means = Means(self.authority, self.objects, self.app, system.now, system.new_token)
        return Ticker(means, Holder(holder), lease_ms=600_000)

    async def populated(self, world: str, entities: int, ticker: Ticker) -> WorldRef:
        """Make a world of so many entities, and publish the ticks that this takes."""
        await self.worlds.create(world, world_id=world)
        ref = self.worlds.ref(world)
        grip = await ticker.take(ref)
        for first in range(0, entities, BATCH):
            last = min(first + BATCH, entities)
            await self.worlds.submit(world, [spawn(number) for number in range(first, last)])
            _, grip = await ticker.tick(ref, grip, keep=True)
        return ref


def wired(root: Path, store: Store, app: App) -> Storage:
    """Put a storage together on a store that is open; closing its authority closes it."""
    authority = Authority(store, system.now, system.new_token)
    worlds = Worlds(
        authority,
        STORAGE,
        app.registry,
        new_token=system.new_token,
        new_run=lambda: run_id(system.now(), system.new_token()),
    )
    return Storage(root, store, authority, worlds, app)


@asynccontextmanager
async def opened(root: Path, app: App) -> AsyncIterator[Storage]:
    """Open the storage in a directory: SQLite authority, objects as local files."""
    storage = wired(root, await SqliteStore.open(root / "authority.db"), app)
    try:
        yield storage
    finally:
        await storage.authority.close()
