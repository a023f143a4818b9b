"""A storage for forks: any store, a ticking application, and the rows of every world in it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
from tests.runtime.harness import Clock, Harness, Place, Speed, fresh_app
from tests.support.stores import dynamodb_http, memory, sqlite

from perdure import App, Spawn
from perdure.kernel.ids import Holder, StorageId, WorldId
from perdure.lake.catalog import open_local
from perdure.lake.iceberg import Lake
from perdure.lake.objects import LocalObjects
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

    @property
    def reader(self) -> Reader:
        return Reader(self.authority, self.objects, self.lake, STORAGE, self.app.registry)

    async def land(self, *worlds: str):
        landing = Landing(self.authority, self.objects, self.lake, STORAGE)
        return await landing.land(
            [WorldId(each) for each in worlds],
            holder=Holder(self.new_token()),
            new_token=self.new_token,
        )

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
    kind: str, directory: Any, request: pytest.FixtureRequest, app: App | None = None
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
            )
    finally:
        catalog.close()
