"""Wiring of exports and replicas of document stores: from one open storage to a place, or another."""

from __future__ import annotations

import importlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from perdure.api.settings import Settings
from perdure.api.wiring import api, existing, made
from perdure.api.wiring_objects import CLOUD
from perdure.kernel.errors import InvalidValue
from perdure.kernel.shown import shown
from perdure.lake.objects import ObjectStore
from perdure.runtime.documents.export import Exported, Report, export_to_file, export_to_objects
from perdure.runtime.documents.export_files import FileSource, ObjectsSource, Source
from perdure.runtime.documents.importing import discard_import, import_store
from perdure.runtime.documents.replica import (
    Lag,
    StoreLog,
    catch_up,
    create_replica,
    follow_as_replica,
    promote,
)
from perdure.runtime.documents.stores import DocumentStores
from perdure.runtime.session.sessions import lineage_of

BUCKET: Final = "s3://"


async def exported(chosen: Settings, store: str, target: str, report: Report) -> dict[str, Any]:
    """Export a document store to a file, or below `s3://bucket/name`, and say what that holds.

    Raises: as export_to_file and export_to_objects; InvalidValue for a bucket without a name.
    """
    async with opened(chosen) as stores:
        means, ref = stores.means, stores.ref(store)
        if target.startswith(BUCKET):
            objects, name = below(chosen, target)
            done = await export_to_objects(means, ref, objects, name, report=report)
        else:
            done = await export_to_file(means, ref, Path(target), report=report)
        return told(done)


async def imported(
    chosen: Settings, store: str, source: str, report: Report, *, follows: bool = False
) -> dict[str, Any]:
    """Make a document store of an export, in a storage that is made if it is not there.

    Raises: as import_store; InvalidValue for a bucket without a name.
    """
    found: Source
    if source.startswith(BUCKET):
        found = ObjectsSource(*below(chosen, source))
    else:
        found = FileSource(Path(source))
    async with opened(chosen, make=True) as stores:
        means, ref = stores.means, stores.others(store)
        lineage = lineage_of(means.new_token())
        _, done = await import_store(
            means, ref, found, lineage=lineage, app=stores.app, follows=follows, report=report
        )
        return told(done)


async def discarded(chosen: Settings, store: str) -> dict[str, Any]:
    """Give up an import that has not ended. Raises: as discard_import."""
    async with opened(chosen) as stores:
        await discard_import(stores.means, stores.ref(store))
        return {"store_id": store, "seq": 0}


async def replicated(
    source: Settings,
    destination: Settings,
    names: tuple[str, str],
    saw: Callable[[Lag], None],
    *,
    is_once: bool,
) -> Lag | None:
    """Keep the second store, a replica, at the first one: once, or until it is cancelled.

    The replica is begun if it is not there. Raises: as catch_up; NotFound for the source.
    """
    async with opened(source) as first, opened(destination, make=True) as second:
        info = await first.describe(names[0])
        ref = second.others(names[1])
        await create_replica(second.means, ref, info.lineage, app=second.app)
        log, replica = StoreLog(first.means, first.ref(names[0])), await second.open(names[1])
        try:
            if is_once:
                return await catch_up(log, replica, saw=saw)
            return await follow_as_replica(log, replica, saw=saw)
        finally:
            await replica.close()


async def promoted(chosen: Settings, store: str) -> int:
    """Let a replica be a store of its own, and return its last commit. Raises as promote."""
    async with opened(chosen) as stores:
        head = await promote(stores.means, stores.ref(store))
        return head.seq


@asynccontextmanager
async def opened(chosen: Settings, *, make: bool = False) -> AsyncIterator[DocumentStores]:
    """Open the document stores of a storage. Raises StoreUnavailable if it is not there."""
    if chosen.backend == "sqlite":
        chosen = made(chosen) if make else existing(chosen)
    async with api(chosen) as ports:
        yield ports.stores


def below(chosen: Settings, where: str) -> tuple[ObjectStore, str]:
    """Return the objects of a bucket, and a name in it. Raises InvalidValue."""
    parts = urlsplit(where)
    name = parts.path.strip("/")
    if not parts.netloc or not name:
        raise InvalidValue(expected="s3://bucket/name", found=shown(where))
    objects: ObjectStore = importlib.import_module(CLOUD).of_bucket(chosen, parts.netloc)
    return objects, name


def told(done: Exported) -> dict[str, Any]:
    """Return what an export holds, as it is shown."""
    return {
        "lineage": done.manifest.lineage,
        "seq": done.manifest.last_seq,
        **done.counts.told(),
        "bytes": done.bytes,
        "sha256": done.sha256,
    }
