"""Trimming: what was let go of, written down before it goes."""

from __future__ import annotations

from dataclasses import dataclass

from perdure.kernel.ids import NO_TICK, Partition, Seq, Tick
from perdure.kernel.record import Record
from perdure.kernel.view import Key


@dataclass(frozen=True, slots=True, kw_only=True)
class Trim(Record):
    """How far a world's segments, checkpoints and log entries may be gone from their places.

    Rows of ticks up to ``segments_through`` are in the Iceberg tables. Of the checkpoints up
    to ``checkpoints_through`` only those of ``checkpoints`` are kept. Log entries up to
    ``log_through`` lie in archive objects; those up to ``removed_through`` nowhere else.
    """

    segments_through: Tick = NO_TICK
    checkpoints_through: Tick = NO_TICK
    checkpoints: tuple[Tick, ...] = ()
    log_through: Seq = Seq(0)
    removed_through: Seq = Seq(0)

    @property
    def key(self) -> Key[Trim]:
        return trim_key(self.partition)

    def may_lack_checkpoint(self, tick: Tick) -> bool:
        """Say whether the checkpoint of a tick was thinned out."""
        return tick <= self.checkpoints_through and tick not in self.checkpoints


def trim_key(world: Partition) -> Key[Trim]:
    return Key(world, "trim", Trim)
