"""Wiring of migration: two storages open at once, and a new process that looks at one of them."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from perdure.api.settings import Settings
from perdure.api.wiring import catalog_path, existing, made, opened_authority
from perdure.api.wiring_lake_readonly import opened_cold
from perdure.api.wiring_lake_storage import opened_catalog, owned_objects
from perdure.authority import system
from perdure.kernel.errors import Conflict, StoreUnavailable
from perdure.kernel.ids import Holder
from perdure.kernel.migration import CheckUnclaimed
from perdure.lake.iceberg import Lake
from perdure.runtime.cold import Cold
from perdure.runtime.documents.store import StoreMeans
from perdure.runtime.inventory import Progress, Side, silent
from perdure.runtime.migrate import Mover, Receipt
from perdure.runtime.migrate_quiet import check_quiet


async def migrated(
    source: Settings, destination: Settings, migration: str, progress: Progress = silent
) -> Receipt:
    """Move a whole storage, or go on with it, and return the receipt.

    Raises: InvalidId, NotQuiescent, NotEmpty, Conflict, Unavailable kinds.
    """
    async with _mover(source, destination, migration, progress) as mover:
        return await mover.move()


async def given_up(source: Settings, destination: Settings, migration: str) -> None:
    """Let the source of a migration go on where it is. Raises Conflict."""
    async with _mover(source, destination, migration, silent) as mover:
        await mover.give_up()


async def looked_at(chosen: Settings, *, resume: bool) -> dict[str, Any]:
    """Tell what a process without any class of the application sees in a storage."""
    holder = Holder(system.new_token()) if resume else None
    async with opened_cold(chosen) as (authority, worlds, reader):
        means = StoreMeans(authority, system.now, system.new_token, asyncio.sleep)
        return await Cold(worlds, reader, means).seen(holder)


async def looked_at_elsewhere(chosen: Settings) -> dict[str, Any]:
    """Tell the same, from a new process that is told nothing but the settings."""
    spelled = json.dumps(chosen.environment())
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",
        "-m",
        "perdure.api.wiring_lake_cold",
        spelled,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await child.communicate()
    if child.returncode != 0:
        told = err.decode(errors="replace").strip().splitlines() or ["nothing said"]
        raise StoreUnavailable(expected="a new process to read the copy", found=told[-1])
    found: dict[str, Any] = json.loads(out)
    return found


@asynccontextmanager
async def _mover(
    source: Settings, destination: Settings, migration: str, progress: Progress
) -> AsyncIterator[Mover]:
    if described(source) == described(destination):
        raise Conflict(expected="two storages", found="one and the same")
    if source.backend == "sqlite":
        existing(source)
    async with _side(source) as left:
        if destination.backend == "sqlite" and not catalog_path(destination).exists():
            # A source that is refused must leave nothing where it was to go.
            await left.authority.execute(CheckUnclaimed(left.storage, migration))
            await check_quiet(left, system.now(), asyncio.sleep)
            made(destination)
        async with _side(destination) as right:
            yield Mover(
                left,
                right,
                migration,
                system.now,
                look=partial(looked_at, source, resume=False),
                look_cold=partial(looked_at_elsewhere, destination),
                pause=asyncio.sleep,
                progress=progress,
            )


@asynccontextmanager
async def _side(chosen: Settings) -> AsyncIterator[Side]:
    catalog = await asyncio.to_thread(opened_catalog, chosen)
    try:
        async with opened_authority(chosen) as authority:
            lake = Lake(catalog, chosen.namespace)
            objects = owned_objects(chosen, authority)
            yield Side(authority, chosen.storage, objects, lake, described(chosen))
    finally:
        catalog.close()


def described(chosen: Settings) -> dict[str, str]:
    """Say which storage it is, without any credentials."""
    authority = chosen.backend if chosen.table is None else f"{chosen.backend} {chosen.table}"
    return {"uri": chosen.uri, "namespace": chosen.namespace, "authority": authority}
