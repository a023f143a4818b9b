"""Wiring of what needs Arrow: reading, ticking and landing, on an open storage."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial

from perdure.api import faces
from perdure.api.ports import DueRan
from perdure.api.sandbox import Sandbox
from perdure.api.settings import Settings, settings
from perdure.api.wiring import opened_worlds
from perdure.api.wiring_lake_rows import ArrowRows
from perdure.api.wiring_lake_storage import claim_of, opened_catalog, owned_objects
from perdure.authority import system
from perdure.authority.engine import Authority
from perdure.kernel.ids import Holder, Instant, WorldId
from perdure.kernel.places import WAKE_SHARDS, WorldRef
from perdure.kernel.rest import ReadAgenda, Wakes
from perdure.kernel.wake import UNREAD_MS
from perdure.lake.iceberg import Lake
from perdure.lake.objects import ObjectStore
from perdure.runtime.app import load_app
from perdure.runtime.land import Landed, Landing
from perdure.runtime.read import Reader
from perdure.runtime.run import Ran, run_due, run_ticks
from perdure.runtime.tick import Means, Ticker
from perdure.runtime.worlds import LIST_MAX, Worlds

LAND_RESERVE_MS = 3_000
"""No intent of landing is begun with less time than this left."""

LEASE_MS_CLOUD = 60_000
LEASE_MS_LOCAL = 20_000
"""What the next writer waits when one was killed: on one machine somebody sits and waits."""


@asynccontextmanager
async def lake(chosen: Settings | None = None) -> AsyncIterator[LakePorts]:
    """Open what the routes with Arrow need; where, the environment says unless told."""
    found = chosen or settings()
    catalog = await asyncio.to_thread(opened_catalog, found)
    try:
        async with opened_worlds(found) as (authority, worlds):
            objects = owned_objects(found, authority)
            tables = Lake(catalog, found.namespace)
            yield LakePorts(found, authority, worlds, objects, tables)
    finally:
        catalog.close()


def everything(chosen: Settings) -> Sandbox[LakePorts]:
    """Return a sandbox with every route that needs Arrow, for a caller in this process."""
    return Sandbox(partial(lake, chosen), faces.LAKE, reply_bytes_max=sys.maxsize)


@dataclass(frozen=True)
class LakePorts:
    """An open storage, as reading, ticking and landing need it."""

    settings: Settings
    authority: Authority
    worlds: Worlds
    objects: ObjectStore
    lake: Lake
    rows: ArrowRows = field(init=False)

    def __post_init__(self) -> None:
        registry = load_app(self.settings.app).registry
        reader = Reader(self.authority, self.objects, self.lake, self.settings.storage, registry)
        object.__setattr__(self, "rows", ArrowRows(reader))

    @cached_property
    def _ticker(self) -> Ticker:
        """The one writer of this process. The processors are imported here."""
        app = load_app(self.settings.app)
        app.load()
        means = Means(self.authority, self.objects, app, system.now, system.new_token)
        lease_ms = LEASE_MS_LOCAL if self.settings.backend == "sqlite" else LEASE_MS_CLOUD
        return Ticker(means, Holder(system.new_token()), lease_ms=lease_ms)

    async def run_ticks(
        self, world: str, *, ticks: int | None, to_tick: int | None, ms: int, key: str | None
    ) -> Ran:
        """Run ticks for at most ``ms``."""
        return await run_ticks(
            self._ticker,
            self.worlds.ref(world),
            ticks=ticks,
            to_tick=to_tick,
            deadline=_deadline(ms),
            request=key,
        )

    async def run_due(self, *, ms: int) -> DueRan:
        """Tick every world whose time has come, for at most ``ms``."""
        done = await run_due(self._ticker, deadline=_deadline(ms))
        failed = tuple(f"{ref.world}: {error.code}" for ref, error in done.failed)
        return DueRan(len(done.ticked), failed)

    async def land_all(self, *, ms: int) -> Landed:
        """Land what any world of the storage has published, for at most ``ms``."""
        found: list[WorldId] = []
        after: str | None = None
        while True:
            page, after = await self.worlds.discover(after, LIST_MAX)
            found += [info.world_id for info in page]
            if after is None:
                return await self._land(found, ms)

    async def land_due(self, *, ms: int) -> Landed:
        """Land what worlds have published that hints name, for at most ``ms``."""
        found = [ref.world for ref in await self._unlanded()]
        return await self._land(found, ms) if found else Landed()

    async def _land(self, worlds: list[WorldId], ms: int) -> Landed:
        until = _deadline(ms)
        landing = Landing(
            self.authority,
            self.objects,
            self.lake,
            self.settings.storage,
            claim=partial(claim_of, self.objects),
        )
        return await landing.land(
            worlds,
            holder=Holder(system.new_token()),
            new_token=system.new_token,
            go_on=lambda: system.now() + LAND_RESERVE_MS < until,
        )

    async def _unlanded(self) -> list[WorldRef]:
        # A hint of a world with rows to land lies at most so far ahead.
        through = Instant(system.now() + UNREAD_MS)
        found: list[WorldRef] = []
        for shard in range(WAKE_SHARDS):
            for hint in await self.authority.execute(Wakes(shard, through)):
                ref = WorldRef(hint.storage, hint.world)
                if ref.storage == self.settings.storage:
                    agenda = await self.authority.execute(ReadAgenda(ref))
                    found += [ref] if agenda.unlanded else []
        return found


def _deadline(ms: int) -> Instant:
    return Instant(system.now() + ms)
