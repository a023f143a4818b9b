"""The ledger: a world's commands in the order of their admission, with what became of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from perdure.kernel.errors import Contended
from perdure.kernel.ids import BatchId, Instant, Partition, Seq
from perdure.kernel.log import log_key
from perdure.kernel.records import BatchKey, Head, batch_key, head_key
from perdure.kernel.request import WorldRequest
from perdure.kernel.seen import SeenInPart
from perdure.kernel.status import (
    CommandStatus,
    Place,
    placed_in,
    state_of,
    told,
    windows,
)
from perdure.kernel.stored import StoredBatch
from perdure.kernel.view import Decision, Key, Missing, R, Reads, View
from perdure.kernel.wake import glimpsed_head

LEDGER_ENTRIES_MAX: Final = 4_000
"""Log entries that one page of the ledger looks through."""


@dataclass(frozen=True, slots=True)
class LedgerPage:
    """Commands in the order of their admission, and behind which (seq, index) to go on."""

    commands: tuple[CommandStatus, ...]
    after: tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class Ledger(WorldRequest):
    """List commands in the order of their admission, with what became of them.

    They are those that the world itself admitted: what a fork took over stands in the ledger of
    the ancestor that admitted it. ``after`` is the (seq, index) at which to go on. A page may be short, or empty, before the
    end: so many log entries were looked through.
    """

    after: tuple[int, int]
    limit: int

    def reads(self) -> Reads:
        return Reads(peeks=(head_key(self.ref.partition),))

    def decide(self, view: View, now: Instant) -> Decision[LedgerPage]:
        head = glimpsed_head(view, self.ref)
        places, after = self._places(view, head)
        found: list[CommandStatus] = []
        lacking: list[Reads] = []
        in_part: SeenInPart | None = None
        for batch, place in places:
            try:
                found.append(told(batch, place, state_of(view, head, place)))
            except SeenInPart as part:
                in_part = in_part or part
            except Missing as missing:
                lacking.append(missing.reads)
        if lacking:  # what all of them lack, in one load
            raise Missing(Reads.union(*lacking))
        if in_part is not None:
            raise in_part
        return Decision(LedgerPage(tuple(found), after))

    def _places(
        self, view: View, head: Head
    ) -> tuple[list[tuple[StoredBatch, Place]], tuple[int, int] | None]:
        """Find the commands of this page, and where the next page starts."""
        places: list[tuple[StoredBatch, Place]] = []
        first, skipped = self.after
        first = max(first, 1)
        last = min(head.seq, first + LEDGER_ENTRIES_MAX - 1)
        for window in windows(first, last):
            for batch, key in _admissions(view, head.partition, window):
                start = skipped if key.seq == first else 0
                stop = min(batch.size, start + self.limit - len(places))
                places += ((batch, placed_in(batch, key, at)) for at in range(start, stop))
                if stop < batch.size:
                    return places, (key.seq, stop)
                if len(places) == self.limit:
                    return places, (key.seq + 1, 0) if key.seq < head.seq else None
        return places, (last + 1, 0) if last < head.seq else None


def _admissions(view: View, world: Partition, window: range) -> list[tuple[StoredBatch, BatchKey]]:
    """Return the batches that the log holds between two places, in order.

    Raises: Missing; Contended if a running commit hides one.
    """
    keys = [log_key(world, Seq(seq)) for seq in window]
    view.require(peeks=keys)
    entries = [_visible(view.peek(key), key) for key in keys]
    admitted = [entry for entry in entries if entry.kind == "admitted"]
    names = [batch_key(world, BatchId(entry.facts["batch"])) for entry in admitted]
    view.require(peeks=names)
    return [
        (StoredBatch.of(entry), _visible(view.peek(name), name))
        for entry, name in zip(admitted, names, strict=True)
    ]


def _visible(record: R | None, key: Key[R]) -> R:
    if record is None:
        raise Contended(expected=f"a record at {key.sort}", found="none yet: its commit is running")
    return record
