"""What a storage holds, counted and digested, so that a copy can be told from its original."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

from perdure.kernel.carry import Carrier, Raw, ReadRaw, RecordsDigest, is_kept_back
from perdure.kernel.documents.moving import FindStoreHead
from perdure.kernel.documents.places import SYSTEM_PREFIX, DocumentStoreRef
from perdure.kernel.documents.records import DocumentStore
from perdure.kernel.errors import Conflict
from perdure.kernel.ids import Partition, StorageId
from perdure.kernel.places import (
    LANES,
    WorldRef,
    catalog_partition,
    landing_partition,
    manifests_partition,
)
from perdure.kernel.reading import FindWorld
from perdure.kernel.records import World
from perdure.lake.copying import content
from perdure.lake.iceberg import Lake
from perdure.lake.objects import ObjectStore
from perdure.runtime.claimed import CLAIM
from perdure.runtime.documents.export_files import JOBS_FOLDER
from perdure.runtime.documents.reading import ReadsAndExecutes

APART: Final = ("warehouse/", f"{JOBS_FOLDER}/", CLAIM)
"""Names in a bucket that are no objects of worlds: the tables' own files, exports that jobs made,
which stay with these jobs, and whose it is."""

GETS: Final = 8
"""Objects that are read or put at once."""

Inventory = dict[str, Any]


class Progress(Protocol):
    """Is told of every step, before and after; ``total`` is None where nobody knows it."""

    def __call__(self, stage: str, done: int, total: int | None) -> None: ...


def silent(stage: str, done: int, total: int | None) -> None:
    """Tell nobody."""


@dataclass(frozen=True, slots=True)
class Streams:
    """What a catalog names, each by id: worlds, destroyed ones too, sessions, document stores.

    Perdure's own document store is not among them: it holds the jobs of its storage, a move of
    that perhaps among them, and stays where it is.
    """

    worlds: list[World] = field(default_factory=list)
    sessions: list[str] = field(default_factory=list)
    stores: list[DocumentStore] = field(default_factory=list)

    def take(self, record: Raw) -> None:
        """Take in a record of the catalog, if it names one of these."""
        kind, _, name = record.sort.partition("/")
        if kind == "world":
            self.worlds.append(World.read(record.partition, record.sort, record.spelled))
        elif kind == "session":
            self.sessions.append(name)
        elif kind == "documents" and not name.startswith(SYSTEM_PREFIX):
            self.stores.append(DocumentStore.read(record.partition, record.sort, record.spelled))


@dataclass(frozen=True, slots=True)
class Side:
    """One storage of a migration, open."""

    authority: ReadsAndExecutes
    storage: StorageId
    objects: ObjectStore
    lake: Lake
    described: dict[str, str]
    """URI, namespace and authority, as plan and receipt say them; no credentials."""

    @property
    def catalog(self) -> Partition:
        return catalog_partition(self.storage)

    def ref(self, world: World) -> WorldRef:
        """Name a world on this side, whichever side it was read on."""
        return WorldRef(self.storage, world.world)

    def store_ref(self, store: DocumentStore) -> DocumentStoreRef:
        """Name a document store on this side, whichever side it was read on."""
        return DocumentStoreRef(self.storage, store.store)

    def partitions(self, held: Streams) -> dict[str, Partition]:
        """Return every partition of the storage by what it is, but for its wake hints."""
        streams = {f"world {world.world}": self.ref(world).partition for world in held.worlds}
        streams |= {
            f"manifests of world {world.world}": manifests_partition(self.ref(world).partition)
            for world in held.worlds
        }
        streams |= {
            f"document store {store.store}": self.store_ref(store).partition
            for store in held.stores
        }
        return {
            "catalog": self.catalog,
            **{lane: landing_partition(self.storage, lane) for lane in LANES},
            **streams,
        }

    async def pages(self, partition: Partition) -> AsyncIterator[tuple[Raw, ...]]:
        """Yield all records of a partition, page by page."""
        beyond = ""
        while page := await self.authority.execute(ReadRaw(partition, beyond)):
            yield page
            beyond = page[-1].sort

    async def streams(self) -> Streams:
        """Return everything that the catalog names."""
        found = Streams()
        async for page in self.pages(self.catalog):
            for record in page:
                found.take(record)
        return found

    async def names(self) -> list[str]:
        """Return the names of the objects of the storage's worlds."""
        found = await self.objects.names("")
        return [name for name in found if not name.startswith(APART)]

    async def tables(self) -> list[str]:
        """Return the names of the Iceberg tables."""
        return await asyncio.to_thread(self.lake.names)


async def inventory(
    side: Side, held: Streams, carrier: Carrier | None, step: Callable[[], None]
) -> Inventory:
    """Describe all of a storage that stands still: the same on both sides of a true copy.

    With a ``carrier`` the side is the source, and its records are digested as they arrive.
    ``step`` is called after each partition and table.
    """
    records: dict[str, Any] = {}
    for what, partition in side.partitions(held).items():
        folded = RecordsDigest()
        async for page in side.pages(partition):
            folded.add(_arriving(page, carrier))
        records[what] = {"records": folded.count, "digest": folded.digest}
        step()
    tables: dict[str, Any] = {}
    for name in await side.tables():
        rows = await asyncio.to_thread(lambda: content(side.lake.table(name)))  # noqa: B023  # awaited here
        tables[name] = {"rows": rows.rows, "digest": rows.digest}
        step()
    names = await side.names()
    return {
        "records": records,
        "tables": tables,
        "objects": {"count": len(names), "names": _folded(names)},
    }


async def world_facts(side: Side, worlds: Sequence[World]) -> dict[str, Any]:
    """Tell what the head of each world says, as a receipt shows it."""
    facts: dict[str, Any] = {}
    for world in worlds:
        head = (await side.authority.execute(FindWorld(side.ref(world)))).head
        facts[world.world] = {
            "name": world.name,
            "run": world.run,
            "status": "active" if head.status == "moving" else head.status,
            "published": head.published,
            "manifest": head.manifest_digest,
            "seq": head.seq,
            "log": head.log_digest,
            "epoch": head.fence.epoch,
        }
    return facts


async def store_facts(side: Side, stores: Sequence[DocumentStore]) -> dict[str, Any]:
    """Tell what the head of each document store says, as a receipt shows it."""
    facts: dict[str, Any] = {}
    for store in stores:
        head = await side.authority.execute(FindStoreHead(side.store_ref(store)))
        facts[store.store] = {
            "lineage": head.lineage,
            "seq": head.seq,
            "log": head.digest,
            "log_from": head.log_from,
            "next_id": head.next_id,
            "epoch": head.epoch,
            "follows": head.follows,
            "head": hashlib.sha256(replace(head, status="open").body()).hexdigest(),
        }
    return facts


async def objects_digest(side: Side, step: Callable[[], None]) -> str:
    """Digest the bytes of every object."""
    names = await side.names()
    folded: list[str] = []

    async def digested(name: str) -> str:
        data = await side.objects.get(name)
        return f"{name} {await asyncio.to_thread(lambda: hashlib.sha256(data).hexdigest())}"

    for first in range(0, len(names), GETS):
        group = names[first : first + GETS]
        folded += await asyncio.gather(*map(digested, group))
        step()
    return _folded(folded)


def _arriving(page: Sequence[Raw], carrier: Carrier | None) -> list[Raw]:
    if carrier is None:
        return [record for record in page if not is_kept_back(record)]
    carried = [carrier.carried(record) for record in page]
    return [record for record in carried if record is not None]


def _folded(lines: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def compare(expected: dict[str, Any], found: dict[str, Any], what: str) -> None:
    """Name the first thing in which two inventories differ. Raises Conflict."""
    for name in sorted({*expected, *found}):
        left, right = expected.get(name), found.get(name)
        if isinstance(left, dict) and isinstance(right, dict):
            compare(left, right, f"{what}, {name}")
        elif left != right:
            raise Conflict(expected=f"{what}, {name}: {left}", found=str(right))
