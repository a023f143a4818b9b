"""Places: which partition a stream lives in, and how the sort keys of its records are spelled."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal, get_args

from perdure.kernel import limits
from perdure.kernel.errors import Corrupt
from perdure.kernel.ids import Instant, Partition, Sequence, StorageId, Tick, WorldId, short_hash
from perdure.kernel.shown import shown

MINUTE_MS: Final = 60_000
WAKE_SHARDS: Final = 8
"""Wake partitions of one table. Source: 1,000 write units a second and partition."""


Lane = Literal["landing", "audit"]
LANES: Final[tuple[Lane, ...]] = get_args(Lane)
"""What a storage copies into tables, each under a fence of its own: rows, or events."""


@dataclass(frozen=True, slots=True)
class WorldRef:
    """Which world: its storage and its id."""

    storage: StorageId
    world: WorldId

    @property
    def partition(self) -> Partition:
        """The world's partition; the storage is in it, so ids never meet across tenants."""
        return world_partition(self.storage, self.world)

    @property
    def catalog(self) -> Partition:
        return catalog_partition(self.storage)

    @property
    def wake(self) -> Partition:
        """The wake partition that may hold a hint for this world."""
        shard = int.from_bytes(short_hash(self.storage, self.world).encode()[:4]) % WAKE_SHARDS
        return wake_partition(shard)


@lru_cache(maxsize=4_096)
def world_partition(storage: StorageId, world: WorldId) -> Partition:
    """Return the partition of a world's own stream."""
    return Partition(f"w/{short_hash(storage)}/{short_hash(world)}")


def manifests_partition(world: Partition) -> Partition:
    """Return where a world's manifests lie: by themselves, so that a right can be on them alone.

    ``world`` is the world's own partition.
    """
    return Partition(f"m{world.removeprefix('w')}")


def manifest_sort(tick: Tick) -> str:
    """Spell where in its partition the manifest of a tick lies."""
    return f"manifest/{number(tick)}"


def catalog_partition(storage: StorageId) -> Partition:
    """Return the partition of a storage's worlds, names and signatures."""
    return Partition(f"c/{short_hash(storage)}")


def landing_partition(storage: StorageId, lane: Lane = "landing") -> Partition:
    """Return the partition of a storage's landing stream, or of its audit's."""
    return Partition(f"{lane[0]}/{short_hash(storage)}")


def quota_partition(stream: Partition, actor: str) -> Partition:
    """Return the partition of what one actor spends in the storage that a stream is of.

    Whatever the stream, its storage is the second part of its name.
    """
    _, storage, *_ = stream.split("/")
    return Partition(f"q/{storage}/{short_hash(actor)}")


def wake_partition(shard: int) -> Partition:
    """Return one of the WAKE_SHARDS partitions of wake hints."""
    return Partition(f"wake/{shard}")


def number(value: int) -> str:
    """Spell a number so that text sorts as numbers do."""
    return f"{value:019d}"


def after(prefix: str) -> str:
    """Return the first text that sorts behind everything that starts with ``prefix``."""
    return prefix[:-1] + chr(ord(prefix[-1]) + 1)


@dataclass(frozen=True, slots=True, order=True)
class PageName:
    """Name of a page: the tick and priority it is due at, and its first sequence."""

    tick: Tick
    priority: int
    first: Sequence

    @property
    def sort(self) -> str:
        return _page_sort(self.tick, self.priority, self.first)

    @classmethod
    def parse(cls, sort: str) -> PageName:
        """Read a sort key that :attr:`sort` spelled. Raises Corrupt."""
        try:
            _, tick, offset, first = sort.split("/")
            return cls(Tick(int(tick)), int(offset) - limits.PRIORITY_MAX, Sequence(int(first)))
        except ValueError as error:
            raise Corrupt(expected="the sort key of a page", found=shown(sort)) from error


@lru_cache(maxsize=4_096)  # the page that a world fills is named by each of its admissions
def _page_sort(tick: Tick, priority: int, first: Sequence) -> str:
    offset = priority + limits.PRIORITY_MAX
    return f"due/{number(tick)}/{offset:010d}/{number(first)}"


def wake_sort(at: Instant, ref: WorldRef) -> str:
    """Spell the wake hint of a world for the minute of ``at``."""
    return f"{number(at // MINUTE_MS)}{_hint_of(ref)}"


def is_hint_of(hint: str, ref: WorldRef) -> bool:
    """Say whether a wake hint, as :func:`wake_sort` spells it, is that of a world."""
    minute = hint.removesuffix(_hint_of(ref))
    return minute != hint and minute.isdecimal()


def _hint_of(ref: WorldRef) -> str:
    return f"/{short_hash(ref.storage)}/{short_hash(ref.world)}"
