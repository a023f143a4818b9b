"""Upkeep: the records by which a world is found when something is due, and read to the end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from perdure.kernel.ids import NO_TICK, Instant, Partition, Seq, StorageId, Tick, WorldId
from perdure.kernel.pace import MissedTicks
from perdure.kernel.places import WorldRef
from perdure.kernel.record import Record
from perdure.kernel.view import Key


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumer(Record):
    """How far a named reader has read this log, without a gap. ``tick`` is landing's own mark."""

    name: str
    seq: Seq
    tick: Tick = NO_TICK

    @property
    def key(self) -> Key[Consumer]:
        return consumer_key(self.partition, self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Required(Record):
    """Consumers that hold the next tick, and the end of the world, until they have read so far."""

    names: tuple[str, ...]

    @property
    def key(self) -> Key[Required]:
        return required_key(self.partition)


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule(Record):
    """When the world ticks by itself."""

    later: ClassVar[Mapping[str, Any]] = {"skipped": 0}

    every_ms: int
    next_at: Instant
    missed: MissedTicks = "coalesce"
    """What becomes of times that no tick served; :mod:`perdure.kernel.schedule` says it."""

    skipped: int = 0
    """Times given up since the last tick."""

    @property
    def key(self) -> Key[Schedule]:
        return schedule_key(self.partition)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wake(Record):
    """Hint that a world has something to do; the truth is its head's ``wake_at``."""

    sort: str
    storage: StorageId
    world: WorldId
    at: Instant

    @property
    def key(self) -> Key[Wake]:
        return Key(self.partition, self.sort, Wake)


def wake_key(ref: WorldRef, hint: str) -> Key[Wake]:
    return Key(ref.wake, hint, Wake)


def consumer_key(world: Partition, name: str) -> Key[Consumer]:
    return Key(world, f"consumer/{name}", Consumer)


def required_key(world: Partition) -> Key[Required]:
    return Key(world, "required", Required)


def schedule_key(world: Partition) -> Key[Schedule]:
    return Key(world, "schedule", Schedule)
