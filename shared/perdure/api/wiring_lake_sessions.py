"""Wiring of what agents do to worlds with rows: read them and tick them, opened when first needed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from perdure.api.settings import Settings
from perdure.api.wiring_lake_storage import opened_catalog, owned_objects
from perdure.authority import system
from perdure.authority.engine import Authority
from perdure.kernel.ids import Holder
from perdure.lake.iceberg import Lake
from perdure.runtime.app import App
from perdure.runtime.read import Reader
from perdure.runtime.session.tool_world import Lakeside
from perdure.runtime.tick import Means, Ticker


@asynccontextmanager
async def lakeside(
    chosen: Settings, authority: Authority, app: App, *, lease_ms: int
) -> AsyncIterator[Lakeside]:
    """Open what reads and ticks the worlds of a storage. Raises StoreUnavailable."""
    catalog = await asyncio.to_thread(opened_catalog, chosen)
    try:
        objects, lake = owned_objects(chosen, authority), Lake(catalog, chosen.namespace)
        means = Means(authority, objects, app, system.now, system.new_token)
        yield Lakeside(
            Reader(authority, objects, lake, chosen.storage, app.registry),
            Ticker(means, Holder(system.new_token()), lease_ms=lease_ms),
        )
    finally:
        catalog.close()
