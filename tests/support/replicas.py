"""Replicas for tests: a source, its replica, and commits that say something else."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from tests.support.documents import LINEAGE, REF, means, opened
from tests.support.histories import ITEMS

from perdure.kernel.canonical import canonical
from perdure.kernel.documents.log import LogPlace
from perdure.kernel.documents.places import DocumentStoreRef
from perdure.kernel.documents.records import Logged
from perdure.kernel.documents.rows import InsertRow
from perdure.kernel.ids import DocumentStoreId
from perdure.runtime.documents.replica import StoreLog, create_replica
from perdure.runtime.documents.store import OpenStore
from perdure.runtime.documents.tables import prepared

REPLICA = DocumentStoreRef(REF.storage, DocumentStoreId("replica"))
ROW = {"shelf": "a", "number": 1, "color": "red", "more": None}

Damage = Callable[[list[dict[str, Any]]], None]


@asynccontextmanager
async def pair() -> AsyncIterator[tuple[OpenStore, OpenStore]]:
    """Open a store with two commits and an empty replica, each on records of its own."""
    with_ = means(prefix="r")
    await create_replica(with_, REPLICA, LINEAGE)
    replica = await OpenStore.open(with_, REPLICA)
    async with opened() as source:
        await prepared(source, (ITEMS,))
        await source.commit([InsertRow(ITEMS, ROW)])
        yield source, replica
    await with_.authority.close()


async def entries_of(source: OpenStore) -> list[Logged]:
    page = await StoreLog(source.means, source.ref, limit=1_000).read(LogPlace())
    return list(page.entries)


def tampered(entry: Logged, damage: Damage, **fields: Any) -> Logged:
    """Return an entry whose writes say something else."""
    writes = entry.told()
    damage(writes)
    return replace(entry, writes=canonical(writes), **fields)
