"""Wiring of cold reads: a storage that is there, opened by who knows nothing but where it is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from perdure.api.settings import Settings, place
from perdure.api.wiring import existing, opened_worlds
from perdure.api.wiring_lake_storage import opened_catalog, opened_objects
from perdure.authority.engine import Authority
from perdure.lake.iceberg import Lake
from perdure.runtime.app import App
from perdure.runtime.read import Reader
from perdure.runtime.readonly import ReadonlyStorage
from perdure.runtime.worlds import Worlds


@asynccontextmanager
async def opened(
    uri: str, *, namespace: str | None = None, table: str | None = None
) -> AsyncIterator[ReadonlyStorage]:
    """Open a storage to be looked at. Raises InvalidValue, StoreUnavailable, NewerSchema."""
    async with opened_readonly(place(uri, table=table, namespace=namespace)) as storage:
        yield storage


@asynccontextmanager
async def opened_readonly(chosen: Settings) -> AsyncIterator[ReadonlyStorage]:
    """Open what ``chosen`` names, which must be there: nothing is made, and no class is needed."""
    async with opened_cold(chosen) as (_, worlds, reader):
        yield ReadonlyStorage(worlds, reader)


@asynccontextmanager
async def opened_cold(chosen: Settings) -> AsyncIterator[tuple[Authority, Worlds, Reader]]:
    """Open the same, for who also looks at what is no world."""
    if chosen.backend == "sqlite":
        existing(chosen)
    catalog = await asyncio.to_thread(opened_catalog, chosen)
    try:
        async with opened_worlds(chosen, App("readonly")) as (authority, worlds):
            lake = Lake(catalog, chosen.namespace)
            yield authority, worlds, Reader(authority, opened_objects(chosen), lake, chosen.storage)
    finally:
        catalog.close()
