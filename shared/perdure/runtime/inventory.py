"""What a storage holds, counted and digested, so that a copy can be told from its original."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from perdure.kernel.carry import Carrier, Raw, ReadRaw, RecordsDigest, is_kept_back
from perdure.kernel.documents.places import SYSTEM_PREFIX
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
from perdure.runtime.ports import Executes

APART: Final = ("warehouse/", CLAIM)
"""Names in a bucket that are no objects of worlds: the tables' own files, and whose it is."""

GETS: Final = 8
"""Objects that are read or put at once."""

Inventory = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Side:
    """One storage of a migration, open."""

    authority: Executes
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

    def partitions(self, worlds: Sequence[World]) -> dict[str, Partition]:
        """Return every partition of the storage by what it is, but for its wake hints."""
        streams = {f"world {world.world}": self.ref(world).partition for world in worlds}
        streams |= {
            f"manifests of world {world.world}": manifests_partition(self.ref(world).partition)
            for world in worlds
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

    async def worlds(self) -> list[World]:
        """Return every world of the catalog, destroyed ones too, by id."""
        return [
            World.read(record.partition, record.sort, record.spelled)
            async for page in self.pages(self.catalog)
            for record in page
            if record.sort.startswith("world/")
        ]

    async def sessions(self) -> list[str]:
        """Return the id of every session of the catalog."""
        return await self._listed("session/")

    async def stores(self) -> list[str]:
        """Return the id of every document store of the catalog, but for Perdure's own."""
        found = await self._listed("documents/")
        return [each for each in found if not each.startswith(SYSTEM_PREFIX)]

    async def _listed(self, prefix: str) -> list[str]:
        return [
            record.sort.removeprefix(prefix)
            async for page in self.pages(self.catalog)
            for record in page
            if record.sort.startswith(prefix)
        ]

    async def names(self) -> list[str]:
        """Return the names of the objects of the storage's worlds."""
        found = await self.objects.names("")
        return [name for name in found if not name.startswith(APART)]

    async def tables(self) -> list[str]:
        """Return the names of the Iceberg tables."""
        return await asyncio.to_thread(self.lake.names)


async def inventory(
    side: Side, worlds: Sequence[World], carrier: Carrier | None, step: Callable[[], None]
) -> Inventory:
    """Describe all of a storage that stands still: the same on both sides of a true copy.

    With a ``carrier`` the side is the source, and its records are digested as they arrive.
    ``step`` is called after each partition and table.
    """
    records: dict[str, Any] = {}
    for what, partition in side.partitions(worlds).items():
        folded = RecordsDigest()
        async for page in side.pages(partition):
            folded.add(_arriving(page, carrier))
        records[what] = {"records": folded.count, "digest": folded.digest}
        step()
    tables: dict[str, Any] = {}
    for name in await side.tables():
        held = await asyncio.to_thread(lambda: content(side.lake.table(name)))  # noqa: B023  # awaited here
        tables[name] = {"rows": held.rows, "digest": held.digest}
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
