"""Wiring of what needs no Arrow: settings become an open authority and its worlds."""

from __future__ import annotations

import asyncio
import importlib
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

from perdure.api import wiring_objects
from perdure.api.ports import Api
from perdure.api.settings import Settings, settings
from perdure.authority import system
from perdure.authority.engine import Authority
from perdure.authority.sqlite import SqliteStore
from perdure.authority.store import Store
from perdure.kernel.errors import StoreUnavailable
from perdure.kernel.floor import EnterCatalog
from perdure.kernel.ids import Instant, RunId, Token
from perdure.runtime.app import App, load_app
from perdure.runtime.archive import ArchivedStore
from perdure.runtime.documents.store import StoreMeans
from perdure.runtime.documents.stores import DocumentStores
from perdure.runtime.worlds import Worlds

CLOUD: Final = "perdure.api.wiring_aws"
"""Imported by name, and only in the cloud: boto3 takes as long as everything else together."""


@asynccontextmanager
async def api(chosen: Settings | None = None) -> AsyncIterator[Api]:
    """Open what the routes without Arrow need; where, the environment says unless told."""
    found = chosen or settings()
    app = load_app(found.app)
    async with opened_worlds(found, app) as (authority, worlds):
        means = StoreMeans(authority, system.now, system.new_token, asyncio.sleep)
        stores = DocumentStores(means, found.storage, app.name)
        yield Api(worlds, stores, pause=asyncio.sleep, costs=authority.costs)


@asynccontextmanager
async def opened_worlds(
    chosen: Settings, app: App | None = None
) -> AsyncIterator[tuple[Authority, Worlds]]:
    """Open the storage that ``chosen`` names, for its application unless one is given.

    Raises: NotFound for the application; StoreUnavailable, NewerSchema; WorldMoving while a
    migration fills it.
    """
    app = load_app(chosen.app) if app is None else app
    async with opened_authority(chosen) as authority:
        await authority.execute(EnterCatalog(chosen.storage))
        yield (
            authority,
            Worlds(
                authority,
                chosen.storage,
                app.registry,
                new_token=system.new_token,
                app=app.name,
                new_run=lambda: run_id(system.now(), system.new_token()),
            ),
        )


@asynccontextmanager
async def opened_authority(chosen: Settings) -> AsyncIterator[Authority]:
    """Open the authority that ``chosen`` names, whatever its catalog says of itself."""
    # Log entries may have moved to archives: whoever asks for them finds them all the same.
    store = ArchivedStore(await _store(chosen), partial(wiring_objects.opened, chosen))
    authority = Authority(store, system.now, system.new_token)
    try:
        yield authority
    finally:
        await authority.close()


def run_id(now: Instant, token: Token) -> RunId:
    """Make a UUID of version 7 of a moment and a token drawn for it."""
    chance = uuid.UUID(token).int
    value = now << 80 | 0x7 << 76 | (chance >> 64 & 0xFFF) << 64 | 0b10 << 62
    return RunId(str(uuid.UUID(int=value | chance & (1 << 62) - 1)))


def catalog_path(chosen: Settings) -> Path:
    """Return the SQLite file of a local authority."""
    return chosen.catalog


def made(chosen: Settings) -> Settings:
    """Make the directories of a local storage, but not those above its root.

    Raises: StoreUnavailable.
    """
    directory = catalog_path(chosen).parent
    try:
        if chosen.is_local:
            chosen.root.mkdir(exist_ok=True)
        directory.mkdir(exist_ok=True, parents=not chosen.is_local)
        marker = directory / ".perdure-can-write"
        marker.touch()
        marker.unlink(missing_ok=True)  # another who opens it may have been there
    except OSError as error:
        raise StoreUnavailable(
            expected=f"a directory {chosen.root if chosen.is_local else directory} that can be written",
            found=(error.strerror or str(error)).lower(),
        ) from error
    return chosen


def existing(chosen: Settings) -> Settings:
    """Return ``chosen`` if a storage with a local authority is there. Raises StoreUnavailable."""
    catalog = catalog_path(chosen)
    where = chosen.root if chosen.is_local else catalog.parent
    if not where.is_dir():
        found = "no such directory"
    elif not catalog.is_file():
        found = "none"
    elif catalog.stat().st_size == 0:
        # SQLite takes an empty file for a new database: every world would be gone, in silence.
        found = f"an empty file {catalog.name}"
    else:
        return chosen
    raise StoreUnavailable(expected=f"a storage in {where}", found=found)


async def _store(chosen: Settings) -> Store:
    if chosen.backend == "sqlite":
        return await SqliteStore.open(catalog_path(chosen))
    store: Store = importlib.import_module(CLOUD).store(chosen)
    return store
