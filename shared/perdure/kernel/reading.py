"""Reading: requests that change nothing, by which landing and queries find what is published."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from perdure.kernel.errors import Corrupt
from perdure.kernel.ids import Instant, Partition, StorageId, TableId, Tick
from perdure.kernel.landing import (
    CONSUMER,
    LandingTable,
    landed_table_key,
    landing_start,
)
from perdure.kernel.places import (
    WorldRef,
    after,
    catalog_partition,
    landing_partition,
    manifest_sort,
    manifests_partition,
)
from perdure.kernel.records import (
    Head,
    Manifest,
    Signature,
    World,
    head_key,
    manifest_key,
    signature_key,
    world_key,
)
from perdure.kernel.seen import SeenInPart, seen_world
from perdure.kernel.upkeep import consumer_key
from perdure.kernel.view import Decision, Range, Reads, View

PAGE_RECORDS = 500
"""Records one range reads: manifests with inline rows are a few kB each."""


@dataclass(frozen=True, slots=True)
class WorldState:
    """A world's identity, and how far it is published and landed."""

    world: World
    head: Head
    landed: Tick

    @property
    def published(self) -> Tick:
        return self.head.published


@dataclass(frozen=True, slots=True)
class FindWorld:
    """Look a world up. Raises NotFound."""

    ref: WorldRef

    once: ClassVar[bool] = False

    @property
    def stream(self) -> Partition:
        return _apart(self.ref.partition)

    def reads(self) -> Reads:
        return Reads(
            peeks=(
                world_key(self.ref),
                head_key(self.ref.partition),
                consumer_key(self.ref.partition, CONSUMER),
            )
        )

    def decide(self, view: View, now: Instant) -> Decision[WorldState]:
        world, head = seen_world(view, self.ref)
        mark = view.peek(consumer_key(self.ref.partition, CONSUMER))
        return Decision(
            WorldState(world, head, landing_start(world) if mark is None else mark.tick)
        )


@dataclass(frozen=True, slots=True)
class FindManifests:
    """Read manifests of published ticks, ``first`` and ``last`` included, at most one page.

    Ascending from ``first``, or descending from ``last``. A range beside a running commit
    may leave one out, so whatever lacks is asked for by name, and by name it may show later than
    the head that speaks of it. Raises Corrupt for a published tick without a manifest.
    """

    partition: Partition
    first: Tick
    last: Tick
    descending: bool = False
    limit: int = PAGE_RECORDS

    once: ClassVar[bool] = False

    @property
    def stream(self) -> Partition:
        return _apart(self.partition)

    def reads(self) -> Reads:
        return Reads(ranges=(self._range,))

    def decide(self, view: View, now: Instant) -> Decision[tuple[Manifest, ...]]:
        if self.descending:
            page = range(self.last, max(self.first, self.last - self.limit + 1) - 1, -1)
        else:
            page = range(self.first, min(self.last, self.first + self.limit - 1) + 1)
        found = {manifest.tick: manifest for manifest in view.find(self._range)}
        keys = [manifest_key(self.partition, Tick(tick)) for tick in page if tick not in found]
        view.require(peeks=keys)
        named = [view.peek(key) for key in keys]
        found |= {manifest.tick: manifest for manifest in named if manifest is not None}
        lacking = [key for key, manifest in zip(keys, named, strict=True) if manifest is None]
        if lacking:
            tick = next(tick for tick in page if tick not in found)
            lost = Corrupt(
                expected=f"a manifest of the published tick {tick} in {self.partition}",
                found="none",
            )
            raise SeenInPart(lacking, lost)
        return Decision(tuple(found[Tick(tick)] for tick in page))

    @property
    def _range(self) -> Range[Manifest]:
        return Range(
            manifests_partition(self.partition),
            manifest_sort(self.first),
            manifest_sort(Tick(self.last + 1)),
            Manifest,
            limit=self.limit,
            descending=self.descending,
        )


@dataclass(frozen=True, slots=True)
class FindSignatures:
    """Read the signatures of a storage's tables behind ``beyond``, one page."""

    storage: StorageId
    beyond: TableId | None = None

    once: ClassVar[bool] = False

    @property
    def stream(self) -> Partition:
        return _apart(catalog_partition(self.storage))

    def reads(self) -> Reads:
        return Reads(ranges=(self._range,))

    def decide(self, view: View, now: Instant) -> Decision[tuple[Signature, ...]]:
        return Decision(tuple(view.find(self._range)))

    @property
    def _range(self) -> Range[Signature]:
        first = "signature/" if self.beyond is None else f"signature/{self.beyond}\x00"
        return Range(
            catalog_partition(self.storage), first, after("signature/"), Signature, PAGE_RECORDS
        )


@dataclass(frozen=True, slots=True)
class FindTables:
    """Look up signatures by table, and how many rows of each were landed. Raises Corrupt."""

    storage: StorageId
    tables: tuple[TableId, ...]

    once: ClassVar[bool] = False

    @property
    def stream(self) -> Partition:
        return _apart(catalog_partition(self.storage))

    def reads(self) -> Reads:
        catalog = catalog_partition(self.storage)
        landing = landing_partition(self.storage)
        return Reads(
            peeks=(
                *(signature_key(catalog, table) for table in self.tables),
                *(landed_table_key(landing, table) for table in self.tables),
            )
        )

    def decide(
        self, view: View, now: Instant
    ) -> Decision[dict[TableId, tuple[Signature, LandingTable | None]]]:
        catalog = catalog_partition(self.storage)
        landing = landing_partition(self.storage)
        found: dict[TableId, tuple[Signature, LandingTable | None]] = {}
        for table in self.tables:
            signature = view.peek(signature_key(catalog, table))
            if signature is None:
                raise Corrupt(
                    expected=f"a signature of table {table} that a manifest names", found="none"
                )
            found[table] = (signature, view.peek(landed_table_key(landing, table)))
        return Decision(found)


def _apart(partition: Partition) -> Partition:
    """Name a line of its own for readers, so that they never stand in a writer's."""
    return Partition(f"{partition}#read")
