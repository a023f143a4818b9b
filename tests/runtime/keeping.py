"""A storage whose whole record is kept: authority, objects, tables, and a story that fills them."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import boto3
import pyarrow as pa
import pyarrow.compute as pc
from tests.runtime.harness import Clock, Fuel, Harness, Place, fresh_app, tokens
from tests.support.ministack import fresh_account
from tests.support.stores import dynamodb_http, sqlite

from perdure import App, Spawn, Update
from perdure.kernel.ids import Holder, StorageId, WorldId
from perdure.lake.catalog import open_local
from perdure.lake.iceberg import Lake
from perdure.lake.objects import LocalObjects
from perdure.lake.s3 import S3Objects
from perdure.runtime.land import Landed, Landing
from perdure.runtime.read import Reader
from perdure.runtime.verify import Verified, Verifier

STORAGE = StorageId("storage")
MANY = 300
"""Entities whose rows of a tick are too many for the manifest."""


class Clockwork:
    """What a processor draws beside the chance it is given: nothing, unless set going."""

    drawn = 0.0


def moving_app() -> App:
    """Return an application whose ships drift by chance and drop a buoy every third tick."""
    app = fresh_app()

    @app.processor(Place)
    def drift(rows, tick):
        steps = tick.rng.random(rows.num_rows) + Clockwork.drawn
        if tick.number % 3 == 0:
            tick.spawn(Fuel(litres=tick.number))
        return rows.set_column(
            rows.schema.get_field_index("place__x"),
            "place__x",
            pc.add(rows["place__x"], pa.array(steps)),
        )

    return app


@dataclass
class Keeping:
    """One storage, and everything that may be asked of it."""

    harness: Harness
    lake: Lake
    catalog: Any

    @property
    def objects(self) -> Any:
        return self.harness.objects

    def verifier(self, app: App | None = None) -> Verifier:
        h = self.harness
        return Verifier(h.authority, h.objects, self.lake, STORAGE, app or h.app)

    async def verify(self, world: str = "w", app: App | None = None, **options: Any) -> Verified:
        return await self.verifier(app).verify(WorldId(world), **options)

    async def land(self, *worlds: str) -> Landed:
        h = self.harness
        landing = Landing(h.authority, h.objects, self.lake, STORAGE)
        return await landing.land(
            [WorldId(each) for each in worlds or ("w",)],
            holder=Holder(h.new_token()),
            new_token=h.new_token,
        )

    async def rows(
        self, component: Any, tick: int | range, world: str = "w"
    ) -> list[dict[str, Any]]:
        reader = Reader(self.harness.authority, self.objects, self.lake, STORAGE)
        return (await reader.query(WorldId(world), [component], ticks=tick)).to_pylist()

    async def live(self, ticks: int = 6, world: str = "w", many: int = MANY) -> None:
        """Create a world and let it live: spawns, updates, refusals, a cancellation."""
        worlds = self.harness.worlds
        await worlds.create(f"harbour {world}", world_id=world)
        fleet = [Spawn(Place(x=float(n), y=0)) for n in range(many)]
        await worlds.submit(world, [*fleet, Spawn(Fuel(litres=3))], batch_id="fleet")
        await worlds.submit(
            world, [Update(Place(x=5, y=5), entity_id=1, tick=2, priority=-1)], batch_id="late"
        )
        await worlds.submit(world, [Update(Fuel(litres=4), entity_id=1)], batch_id="refused")
        await worlds.submit(world, [Spawn(Place(x=0, y=0), tick=3)], batch_id="cancelled")
        await worlds.cancel(world, "cancelled.0")
        for tick in range(ticks):
            await self.harness.run(world, tick)
            self.harness.clock.advance(1_000)


@contextlib.asynccontextmanager
async def keeping(
    root: Any, *, aws: str | None = None, app: App | None = None, wrap: Any = None
) -> AsyncIterator[Keeping]:
    """Open a storage on SQLite and files, or at ``aws`` on DynamoDB and S3."""
    opener_of = sqlite(root) if aws is None else dynamodb_http(aws)
    catalog = open_local(root)
    client = None
    if aws is None:
        objects: Any = LocalObjects(root / "objects")
    else:
        access = fresh_account()
        client = boto3.client(
            "s3",
            "eu-west-1",
            endpoint_url=aws,
            aws_access_key_id=access,
            aws_secret_access_key="x",
        )
        bucket = f"kept-{access}"
        client.create_bucket(
            Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": "eu-west-1"}
        )
        objects = S3Objects(client, bucket)
    async with opener_of as open_store:
        store = await open_store()
        if wrap is not None:
            store = wrap(store, objects)
        h = Harness(store, objects, moving_app() if app is None else app, Clock())
        h.new_token = tokens("k")
        try:
            yield Keeping(h, Lake(catalog, "main"), catalog)
        finally:
            await h.authority.close()
            catalog.close()
            if client is not None:
                client.close()
