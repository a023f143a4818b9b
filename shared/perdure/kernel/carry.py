"""Carrying records to another storage: exact bytes, but for what names the place it lies in."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import ClassVar, Final, Self

from perdure.kernel.documents.records import StoreHead
from perdure.kernel.errors import Conflict
from perdure.kernel.floor import check_run_by, floor_key
from perdure.kernel.ids import Instant, Partition, StorageId, short_hash
from perdure.kernel.landing import LandingHead
from perdure.kernel.migration import migration_key
from perdure.kernel.pages import Page
from perdure.kernel.places import catalog_partition
from perdure.kernel.record import Record
from perdure.kernel.records import Fence, Head
from perdure.kernel.view import Decision, Key, Range, Reads, View

PAGE_RECORDS: Final = 50
"""Records of one reading and one writing, within COMMIT_ACTIONS_MAX; each may be a whole batch."""

_LANDINGS: Final = {"a", "l"}
"""Partitions whose head orders landings: of events, and of rows."""

_OF_THE_PLACE: Final = {"authority", "floor"}
_KEPT_BACK: Final = ("world/", "name/", "migration/", "documents/")
"""Records of a catalog that appear last, when their worlds do, or never."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Raw(Record):
    """A record of whatever kind, with its exact body."""

    sort: str
    spelled: bytes

    @property
    def key(self) -> Key[Raw]:
        return Key(self.partition, self.sort, Raw)

    def body(self) -> bytes:
        return self.spelled

    @classmethod
    def read(cls, partition: Partition, sort: str, body: bytes) -> Self:
        return cls(partition=partition, sort=sort, spelled=body)


@dataclass(frozen=True, slots=True)
class ReadRaw:
    """Read records of a partition behind ``beyond``, of whatever kind, one page."""

    partition: Partition
    beyond: str = ""

    once: ClassVar[bool] = False

    @property
    def stream(self) -> Partition:
        return Partition(f"{self.partition}#read")

    def _range(self) -> Range[Raw]:
        first = f"{self.beyond}\0" if self.beyond else ""
        # Every sort key begins with a word of ours.
        return Range(self.partition, first, "\x7f", Raw, PAGE_RECORDS)

    def reads(self) -> Reads:
        return Reads(ranges=(self._range(),))

    def decide(self, view: View, now: Instant) -> Decision[tuple[Raw, ...]]:
        return Decision(tuple(view.find(self._range())))


@dataclass(frozen=True, slots=True)
class ImportRaw:
    """Write records that were carried here, or see that the very same lie here already.

    Raises: Conflict, also once the migration has gone on without the one who asks.
    """

    storage: StorageId
    migration: str
    partition: Partition
    records: tuple[Raw, ...]

    once: ClassVar[bool] = False

    @property
    def stream(self) -> Partition:
        return self.partition

    def reads(self) -> Reads:
        catalog = catalog_partition(self.storage)
        named = (floor_key(catalog), migration_key(catalog, self.migration))
        return Reads(keys=(*named, *(record.key for record in self.records)))

    def decide(self, view: View, now: Instant) -> Decision[None]:
        # Else one who slept here would bring back what the living have removed since.
        catalog = catalog_partition(self.storage)
        check_run_by(view, catalog, "staged", self.migration)
        migration = view.get(migration_key(catalog, self.migration))
        if migration is not None and migration.has("verified"):
            raise Conflict(
                expected=f"migration {self.migration} to be copying still",
                found=f"stage {migration.stage}",
            )
        new: list[Raw] = []
        for record in self.records:
            known = view.get(record.key)
            if known is None:
                new.append(record)
            elif known != record:
                raise Conflict(
                    expected=f"nothing, or what was carried there, at {record.sort}",
                    found="another record",
                )
        return Decision(None, tuple(new))


@dataclass(frozen=True, slots=True)
class Carrier:
    """Knows what a record of one storage is called, and says, in another."""

    source: StorageId
    destination: StorageId

    def partition(self, partition: Partition) -> Partition:
        """Return the partition of the destination that answers to one of the source."""
        kind, storage, *rest = partition.split("/")
        assert storage == short_hash(self.source), f"{partition} belongs to another storage"
        return Partition("/".join((kind, short_hash(self.destination), *rest)))

    def carried(self, record: Raw) -> Raw | None:
        """Return the record as the destination holds it before its worlds appear.

        None for one that is not carried, or that appears together with its world.
        """
        partition, sort = record.partition, record.sort
        kind = partition.partition("/")[0]
        body = record.spelled
        if is_kept_back(record):
            return None
        if kind == "w" and sort == "head":
            head = Head.read(partition, sort, body)
            body = replace(head, fence=Fence(epoch=head.fence.epoch), wake_at=None).body()
        elif kind in _LANDINGS and sort == "head":
            landing = LandingHead.read(partition, sort, body)
            body = replace(landing, fence=Fence()).body()
        elif kind == "d" and sort == "head":
            # Nobody sees it until it is all there; whoever has an owner in hand keeps it.
            body = replace(StoreHead.read(partition, sort, body), status="staged").body()
        elif kind == "w" and sort.startswith("due/"):
            body = self._page(Page.read(partition, sort, body)).body()
        return Raw(partition=self.partition(partition), sort=sort, spelled=body)

    def _page(self, page: Page) -> Page:
        """Return a page whose entries name the logs of the destination."""
        entries = [
            entry if entry.world is None else replace(entry, world=self.partition(entry.world))
            for entry in page.entries
        ]
        return Page.of(page.partition, page.name, entries)


class RecordsDigest:
    """Folds records, in their order, into one digest."""

    def __init__(self) -> None:
        self.count = 0
        self._state = hashlib.sha256(b"perdure.migration.records.v1")

    def add(self, records: Iterable[Raw]) -> None:
        """Take in records; where they lie is no part of the digest."""
        for record in records:
            self.count += 1
            for part in (record.sort.encode(), record.spelled):
                self._state.update(b"\0%d\0" % len(part))
                self._state.update(part)

    @property
    def digest(self) -> str:
        """The digest so far, as 64 hex digits."""
        return self._state.hexdigest()


def is_kept_back(record: Raw) -> bool:
    """Say whether a record is of those that never travel, or travel last."""
    held = record.sort in _OF_THE_PLACE or record.sort.startswith(_KEPT_BACK)
    return held and record.partition.startswith("c/")
