"""What is open at each moment, as the log and the manifests say, without asking any page."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from perdure.kernel import ranges
from perdure.kernel.ids import Partition, Seq, Sequence, Tick
from perdure.kernel.log import LogEntry
from perdure.kernel.ranges import Ranges
from perdure.kernel.records import Manifest
from perdure.kernel.stored import StoredBatch, StoredCommand
from perdure.runtime.findings import Finding


class Place(NamedTuple):
    """Where one open command stands: when it is due, and the admission that it came with."""

    tick: Tick
    priority: int
    sequence: Sequence
    origin: tuple[Partition, Seq, int]
    """The log and its entry that admitted it, and its group there."""

    is_inherited: bool
    """A fork brought it along: it was there before the log began."""

    batch: StoredBatch

    @property
    def command(self) -> StoredCommand:
        return self.batch.command(self.sequence - self.batch.first_sequence)


@dataclass(slots=True)
class Open:
    """Open commands by sequence."""

    places: dict[int, Place] = field(default_factory=dict)
    below: int = 0
    """Everything below was cancelled."""

    below_seq: Seq = Seq(0)
    """The log entry that cancelled it."""

    is_whole: bool = True
    """Every log entry so far could be read."""

    def follow(self, entry: LogEntry, *, inherited: bool = False) -> None:
        """Take in what one log entry says."""
        if entry.kind == "admitted":
            batch = StoredBatch.of(entry)
            for number, ((tick, priority), _) in enumerate(batch.groups):
                origin = (entry.partition, entry.seq, number)
                for each in ranges.members(batch.group_ranges[number]):
                    self.places[each] = Place(tick, priority, each, origin, inherited, batch)
        elif entry.kind == "cancelled":
            self.places.pop(entry.facts["sequence"], None)
        elif entry.kind == "cancelled_all":
            self.below = max(self.below, entry.facts["cancelled_below"])
            self.below_seq = entry.seq
            self.forget_below(self.below)

    def forget_below(self, below: int) -> None:
        """Let go of what stands below a line that everything below was cancelled at."""
        for each in [each for each in self.places if each < below]:
            del self.places[each]

    def settle(self, manifest: Manifest) -> None:
        """Take out what a tick is done with, and move what it will try again."""
        for outcome in manifest.outcomes:
            place = self.places.get(outcome.sequence)
            if place is not None and outcome.again is not None:
                again = outcome.again
                self.places[outcome.sequence] = place._replace(
                    tick=again.tick, priority=again.priority
                )
        for each in ranges.members(ranges.union(manifest.settled, manifest.cancelled)):
            self.places.pop(each, None)

    def applied(self, manifest: Manifest) -> list[StoredCommand]:
        """Return the commands that a tick applied or rejected, in the order it did."""
        dead = {each.sequence for each in manifest.outcomes if each.status == "dead_letter"}
        found = [
            self.places[each]
            for each in ranges.members(manifest.settled)
            if each in self.places and each not in dead
        ]
        return [place.command for place in sorted(found, key=lambda place: place[:3])]

    def check(self, manifest: Manifest) -> list[Finding]:
        """Compare what a tick settled or charged with what was due when its drain began."""
        if not self.is_whole:
            return []
        charged = ranges.ranges(
            each.sequence for each in manifest.outcomes if each.status == "retryable"
        )
        where = f"manifest {manifest.tick}"
        stray = [
            each
            for each in ranges.members(ranges.union(manifest.settled, charged))
            if not self._is_due(each, manifest)
        ]
        findings = []
        if stray:
            findings.append(
                Finding(
                    "settled",
                    where,
                    f"only commands that were due at tick {manifest.tick}",
                    f"sequences {spelled(ranges.ranges(stray))}, which were not",
                )
            )
        unsettled = ranges.difference(
            ranges.ranges(each.sequence for each in manifest.outcomes if each.again is None),
            manifest.settled,
        )
        lying = [each for each in ranges.members(manifest.cancelled) if each in self.places]
        if unsettled or lying:
            findings.append(
                Finding(
                    "settled",
                    where,
                    "failures among what it settled, and nothing open among what was cancelled",
                    f"sequences {spelled(ranges.union(unsettled, ranges.ranges(lying)))}",
                )
            )
        return findings

    def _is_due(self, sequence: int, manifest: Manifest) -> bool:
        place = self.places.get(sequence)
        return (
            place is not None
            and place.tick <= manifest.tick
            and (place.is_inherited or place.origin[1] <= manifest.drained_seq)
        )


def spelled(held: Ranges) -> str:
    """Spell sequences for a finding, the first few of them."""
    shown = ", ".join(
        str(first) if first == last else f"{first} to {last}" for first, last in held[:5]
    )
    return shown if len(held) <= 5 else f"{shown}, …"
