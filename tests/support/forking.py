"""A storage for forks: any store, a ticking application, and the rows of every world in it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest
from tests.runtime.harness import Clock, Harness, Place, Speed, fresh_app
from tests.support.stores import dynamodb_http, memory, sqlite

from perdure import App, Spawn
from perdure.authority.packing import packed, unpacked
from perdure.kernel.ids import Holder, RunId, StorageId, WorldId
from perdure.kernel.places import WorldRef
from perdure.kernel.record import Record
from perdure.kernel.view import Key, Stored, Version
from perdure.lake.catalog import open_local
from perdure.lake.iceberg import Lake
from perdure.lake.objects import LocalObjects
from perdure.runtime.fork import Wish
from perdure.runtime.land import Landing
from perdure.runtime.read import Reader

STORES = ["memory", "sqlite", pytest.param("dynamodb", marks=pytest.mark.cloud)]

STORAGE = StorageId("storage")


def drifting_app() -> App:
    """Return an application in which everything moves by one each tick."""
    app = fresh_app()

    def drift(rows, tick):
        moved = [x + 1 for x in rows.column("place__x").to_pylist()]
        at = rows.schema.get_field_index("place__x")
        return rows.set_column(at, rows.schema.field(at), [moved])

    app.processor(Place)(drift)
    return app


@dataclass
class Rig(Harness):
    """A harness whose rows can be landed and read."""

    lake: Any = None
    storage: StorageId = STORAGE

    def __post_init__(self) -> None:
        super().__post_init__()
        self.worlds._storage = self.storage

    @property
    def reader(self) -> Reader:
        return Reader(self.authority, self.objects, self.lake, self.storage, self.app.registry)

    async def land(self, *worlds: str):
        landing = Landing(self.authority, self.objects, self.lake, self.storage)
        return await landing.land(
            [WorldId(each) for each in worlds],
            holder=Holder(self.new_token()),
            new_token=self.new_token,
        )

    def plant(self, record: Record) -> None:
        """Make a record of a store in memory as if it had been committed."""
        version = Version(1, self.new_token())
        self.store._records[record.key] = Stored(version, packed(record.body()))

    def held(self, key: Key[Any]) -> Any:
        """Return the record at a key of a store in memory, or None."""
        stored = self.store._records.get(key)
        if stored is None:
            return None
        return key.of.read(key.partition, key.sort, unpacked(stored.body))

    def everything(self) -> dict[Key[Any], Stored]:
        """Return every record of a store in memory with its version."""
        return dict(self.store._records)

    async def rows(self, world: str, tick: int | None = None) -> list[tuple[int, float]]:
        """Return (entity, x) of every place at a tick."""
        table = await self.reader.query(WorldId(world), ["Place"], ticks=tick)
        columns = (table.column(name).to_pylist() for name in ("entity_id", "place__x"))
        return list(zip(*columns, strict=True))

    async def fork(self, source: str, child: str, **options: Any):
        return await self.worlds.fork(source, f"name of {child}", world_id=child, **options)

    async def state(self, command: str, world: str) -> str:
        return (await self.worlds.command(world, command)).status

    async def harbour(self, ticks: int = 3) -> None:
        """Make a world with three ships, ``ticks`` published ticks and commands that are open."""
        await self.worlds.create("harbour", world_id="w", kind="port")
        ships = [Spawn(Place(x=n, y=0)) for n in range(3)]
        await self.worlds.submit("w", ships, batch_id="ships")
        await self.run("w", ticks - 1)
        later = [
            Spawn(Place(x=100, y=0), tick=ticks),
            Spawn(Place(x=200, y=0), tick=ticks + 2, command_id="late"),
            Spawn(Speed(x=1, y=1), tick=ticks, priority=4),
        ]
        await self.worlds.submit("w", later, batch_id="later")
        await self.worlds.submit("w", [Spawn(Place(x=300, y=0), tick=ticks)], batch_id="one")


@contextlib.asynccontextmanager
async def rig(
    kind: str,
    directory: Any,
    request: pytest.FixtureRequest | None = None,
    app: App | None = None,
    storage: StorageId = STORAGE,
) -> AsyncIterator[Rig]:
    """Open a rig on a store of that kind."""
    made = {
        "memory": memory,
        "sqlite": lambda: sqlite(directory),
        "dynamodb": lambda: dynamodb_http(request.getfixturevalue("aws")),
    }
    catalog = open_local(directory / "lake")
    try:
        async with made[kind]() as opened:
            yield Rig(
                await opened(),
                LocalObjects(directory / "objects"),
                drifting_app() if app is None else app,
                Clock(),
                Lake(catalog, "main"),
                storage,
            )
    finally:
        catalog.close()


@dataclass
class Interrupted:
    """An authority beside which a rival acts, before each request of a kind, so many times."""

    authority: Any
    before: type
    rival: Callable[[], Awaitable[object]]
    times: int = 1

    async def execute(self, asked: Any) -> Any:
        if isinstance(asked, self.before) and self.times:
            self.times -= 1
            await self.rival()
        return await self.authority.execute(asked)


def run_of(child: str) -> RunId:
    """Make a run of version 7 for a fork, the same for the same id."""
    return RunId(f"01890000-0000-7000-8000-{child.encode().hex():0>12.12}")


def wish(source: str, child: str, **options: Any) -> Wish:
    """Return what is asked for with a fork, for those who fork without `Worlds`."""
    run = run_of(child)
    refs = (WorldRef(STORAGE, WorldId(each)) for each in (source, child))
    return Wish(*refs, f"a {child}", run, **options)
