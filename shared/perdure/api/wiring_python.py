"""Wiring of the Python face: a URI and an application become an open storage."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from perdure.api import wiring_models
from perdure.api.settings import place
from perdure.api.wiring import made, opened_worlds
from perdure.api.wiring_lake_storage import claim_of, opened_catalog, owned_objects
from perdure.authority import system
from perdure.kernel.ids import Holder
from perdure.lake.iceberg import Lake
from perdure.runtime.app import App
from perdure.runtime.documents.store import StoreMeans
from perdure.runtime.documents.stores import DocumentStores
from perdure.runtime.land import LEASE_MS, Landing
from perdure.runtime.read import Reader
from perdure.runtime.storage import Storage
from perdure.runtime.tick import Means, Ticker


@asynccontextmanager
async def opened(
    uri: str, *, app: App, namespace: str = "default", table: str | None = None
) -> AsyncIterator[Storage]:
    """Open a storage; a local one is made if it is not there.

    Raises: InvalidValue, StoreUnavailable, NewerSchema.
    """
    chosen = place(uri, table=table, namespace=namespace)
    if chosen.backend == "sqlite":
        made(chosen)
    app.load()
    catalog = await asyncio.to_thread(opened_catalog, chosen)
    try:
        async with opened_worlds(chosen, app) as (authority, worlds):
            objects, lake = owned_objects(chosen, authority), Lake(catalog, chosen.namespace)
            means = Means(authority, objects, app, system.now, system.new_token)
            yield Storage(
                worlds=worlds,
                ticker=Ticker(
                    means, Holder(system.new_token()), lease_ms=chosen.lease_ms or LEASE_MS
                ),
                reader=Reader(authority, objects, lake, chosen.storage, app.registry),
                landing=Landing(
                    authority, objects, lake, chosen.storage, claim=partial(claim_of, objects)
                ),
                now=system.now,
                new_token=system.new_token,
                document_stores=DocumentStores(
                    StoreMeans(authority, system.now, system.new_token, asyncio.sleep),
                    chosen.storage,
                    app.name,
                ),
                model=wiring_models.opened_model,
            )
    finally:
        catalog.close()
