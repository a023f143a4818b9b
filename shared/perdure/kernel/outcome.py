"""Outcomes: what became of every command of one batch, in one reading."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from perdure.kernel.errors import NotFound
from perdure.kernel.ids import BatchId, Instant, Partition
from perdure.kernel.ledger import all_told
from perdure.kernel.places import WorldRef
from perdure.kernel.records import batch_key, head_key
from perdure.kernel.status import CommandStatus, glimpsed_head, placed_in, stored_batch
from perdure.kernel.view import Decision, Reads, View


@dataclass(frozen=True, slots=True)
class OutcomeOf:
    """Tell what became of the commands of one batch, in the order they were sent."""

    ref: WorldRef
    batch: BatchId

    once: ClassVar[bool] = False

    @property
    def stream(self) -> Partition:
        return self.ref.partition

    def reads(self) -> Reads:
        world = self.ref.partition
        return Reads(peeks=(head_key(world), batch_key(world, self.batch)))

    def decide(self, view: View, now: Instant) -> Decision[tuple[CommandStatus, ...]]:
        """Raises NotFound, Missing, Contended."""
        world = self.ref.partition
        head = glimpsed_head(view, self.ref)
        key = view.peek(batch_key(world, self.batch))
        if key is None:
            raise NotFound(expected="a batch that was admitted", found=f"no batch {self.batch!r}")
        stored = stored_batch(view, world, key.seq)
        places = ((stored, placed_in(stored, key, index)) for index in range(stored.size))
        return Decision(all_told(view, head, places))
