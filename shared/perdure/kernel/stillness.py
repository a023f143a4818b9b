"""Stillness: what must be settled before a storage may be moved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from perdure.kernel.errors import NotQuiescent, PerdureError
from perdure.kernel.ids import Instant, Partition, StorageId, Tick
from perdure.kernel.landing import LandingHead, landing_head_key
from perdure.kernel.places import LANES, landing_partition
from perdure.kernel.records import Head, World
from perdure.kernel.view import Decision, Key, Reads, View


def unquiet(world: World, head: Head, landed: Tick, now: Instant) -> PerdureError | None:
    """Return why a world cannot be moved now, None if it can."""
    fence = head.fence
    found: str | None = None
    if head.status == "closing":
        found = "closing"
    elif head.status == "active" and head.writer_mode != "resumable":
        found = "private and not retired"
    elif head.status == "active" and head.open_commands:
        found = f"waiting for {head.open_commands} open commands"
    elif head.status == "active" and fence.is_held(now):
        found = f"held by a writer for {fence.until - now} ms more"
    elif landed < head.published:
        found = f"published up to tick {head.published} and landed up to {landed}"
    if found is None:
        return None
    return NotQuiescent(
        expected="every world of the source at rest", found=f"world {world.world!r} {found}"
    )


@dataclass(frozen=True, slots=True)
class FindOpenIntent:
    """Tell which intent of a storage is open, of rows or of the audit; None if none is."""

    storage: StorageId

    once: ClassVar[bool] = False

    @property
    def stream(self) -> Partition:
        return Partition(f"{landing_partition(self.storage)}#read")

    def reads(self) -> Reads:
        return Reads(peeks=self._heads())

    def decide(self, view: View, now: Instant) -> Decision[str | None]:
        heads = filter(None, map(view.peek, self._heads()))
        return Decision(next((head.intent for head in heads if head.intent is not None), None))

    def _heads(self) -> tuple[Key[LandingHead], ...]:
        return tuple(landing_head_key(landing_partition(self.storage, lane)) for lane in LANES)
