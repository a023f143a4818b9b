"""What a store holds at the end: the records of each world, and their exact bytes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from perdure.kernel.carry import Raw
from perdure.kernel.ids import Partition, StorageId, WorldId
from perdure.kernel.log import LogEntry
from perdure.kernel.pages import Page
from perdure.kernel.places import WorldRef, catalog_partition, manifests_partition
from perdure.kernel.record import Record
from perdure.kernel.records import BatchKey, Cancelled, Head, Manifest, Name, World
from perdure.kernel.view import Key, Range, Reads, View

Load = Callable[[Reads], Awaitable[View]]

Bytes = Mapping[Partition, Mapping[str, bytes]]
"""Bodies by partition and sort key."""

PAGE_RECORDS = 100


class Held(NamedTuple):
    """One record as it lies in a store."""

    revision: int
    token: str
    body: bytes


@dataclass(frozen=True)
class WorldRecords:
    """The records of one world. Its manifests are its own: an ancestor's lie with the ancestor."""

    record: World
    head: Head
    log: tuple[LogEntry, ...]
    manifests: Mapping[int, Manifest]
    batches: Mapping[str, BatchKey]
    cancelled: frozenset[int]
    pages: tuple[Page, ...]


@dataclass(frozen=True)
class Records:
    """The records of a storage: its worlds by id, and who has which name."""

    worlds: Mapping[str, WorldRecords]
    names: Mapping[str, str]


async def held_in(load: Load, partition: Partition) -> dict[str, Held]:
    """Return every record of a partition, in order, however many."""
    found: dict[str, Held] = {}
    beyond = ""
    while True:
        # Every sort key begins with a word of ours.
        wanted = Range(partition, beyond, "\x7f", Raw, PAGE_RECORDS)
        view = await load(Reads(ranges=(wanted,)))
        keys = view.keys_of(wanted)
        for key in keys:
            stored = view.stored[key]
            assert stored is not None, "a range holds what is there"
            found[key.sort] = Held(stored.version.revision, stored.version.token, stored.body)
        if len(keys) < PAGE_RECORDS:
            return found
        beyond = keys[-1].sort + "\0"


async def bytes_of(load: Load, storage: StorageId) -> dict[Partition, dict[str, bytes]]:
    """Return the bodies of a storage's catalog and of all its worlds."""
    catalog = catalog_partition(storage)
    found = {catalog: await held_in(load, catalog)}
    for sort in found[catalog]:
        if sort.startswith("world/"):
            partition = WorldRef(storage, WorldId(sort.removeprefix("world/"))).partition
            for each in (partition, manifests_partition(partition)):
                found[each] = await held_in(load, each)
    return {
        partition: {sort: each.body for sort, each in held.items()}
        for partition, held in found.items()
    }


def records_of(bodies: Bytes, storage: StorageId) -> Records:
    """Read the records of a storage from their bytes."""
    catalog = catalog_partition(storage)
    worlds = _under(bodies, catalog, "world/", World)
    names = _under(bodies, catalog, "name/", Name)
    return Records(
        {world.world: _world(bodies, world) for world in worlds},
        {name.name: name.world for name in names},
    )


def _world(bodies: Bytes, record: World) -> WorldRecords:
    partition = record.ref.partition
    (head,) = _under(bodies, partition, "head", Head)
    manifests = _under(bodies, manifests_partition(partition), "manifest/", Manifest)
    return WorldRecords(
        record,
        head,
        tuple(_under(bodies, partition, "log/", LogEntry)),
        {manifest.tick: manifest for manifest in manifests},
        {key.batch: key for key in _under(bodies, partition, "key/batch/", BatchKey)},
        frozenset(mark.sequence for mark in _under(bodies, partition, "cancelled/", Cancelled)),
        tuple(_under(bodies, partition, "due/", Page)),
    )


def _under(bodies: Bytes, partition: Partition, prefix: str, of: type[Record]) -> list[Any]:
    return list(_read(bodies.get(partition, {}), partition, prefix, of))


def _read(
    held: Mapping[str, bytes], partition: Partition, prefix: str, of: type[Record]
) -> Iterator[Record]:
    for sort in sorted(held):
        if sort.startswith(prefix):
            yield of.read(partition, sort, held[sort])


def bytes_on_paper(stored: Mapping[Key[Any], Any]) -> dict[Partition, dict[str, bytes]]:
    """Return the bodies of records that lie in a dictionary, as :class:`Paper` has them."""
    found: dict[Partition, dict[str, bytes]] = {}
    for key, each in stored.items():
        found.setdefault(key.partition, {})[key.sort] = each.body
    return found
