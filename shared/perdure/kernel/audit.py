"""Audited: how far a world's log is in the audit table, and how far it goes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from perdure.kernel.ids import Instant, Partition, Seq, StorageId, TableId
from perdure.kernel.landing import AUDIT, LandingTable, landed_table_key
from perdure.kernel.places import WorldRef, landing_partition
from perdure.kernel.records import Head, World, head_key, world_key
from perdure.kernel.seen import seen_world
from perdure.kernel.upkeep import consumer_key
from perdure.kernel.view import Decision, Key, Reads, View


@dataclass(frozen=True, slots=True)
class Audited:
    """A world, also a destroyed one, and the last entry of its log that the table has."""

    world: World
    head: Head
    through: Seq


@dataclass(frozen=True, slots=True)
class FindAudited:
    """Look up how far a world's log is in the audit table. Raises NotFound."""

    ref: WorldRef

    once: ClassVar[bool] = False

    @property
    def stream(self) -> Partition:
        # A line of its own for readers, so that they never stand in a writer's.
        return Partition(f"{self.ref.partition}#read")

    def reads(self) -> Reads:
        world = self.ref.partition
        return Reads(peeks=(world_key(self.ref), head_key(world), consumer_key(world, AUDIT)))

    def decide(self, view: View, now: Instant) -> Decision[Audited]:
        world, head = seen_world(view, self.ref)
        mark = view.peek(consumer_key(self.ref.partition, AUDIT))
        return Decision(Audited(world, head, Seq(0) if mark is None else mark.seq))


@dataclass(frozen=True, slots=True)
class FindAuditTable:
    """Look up what was appended to a storage's audit table; None before the first event."""

    storage: StorageId
    table: TableId

    once: ClassVar[bool] = False

    @property
    def stream(self) -> Partition:
        return Partition(f"{landing_partition(self.storage, AUDIT)}#read")

    def reads(self) -> Reads:
        return Reads(peeks=(self._key,))

    def decide(self, view: View, now: Instant) -> Decision[LandingTable | None]:
        return Decision(view.peek(self._key))

    @property
    def _key(self) -> Key[LandingTable]:
        return landed_table_key(landing_partition(self.storage, AUDIT), self.table)
