"""The log as a feed: entries in order, up to the first that is not there yet."""

from __future__ import annotations

from dataclasses import dataclass

from perdure.kernel.ids import Instant, Seq
from perdure.kernel.log import LogEntry
from perdure.kernel.places import after, number
from perdure.kernel.records import head_key
from perdure.kernel.request import WorldRequest
from perdure.kernel.view import Decision, Range, Reads, View
from perdure.kernel.wake import glimpsed_head


@dataclass(frozen=True, slots=True)
class LogFeed(WorldRequest):
    """Read log entries behind ``after``. A gap ends the answer: the rest is not visible yet."""

    after: Seq
    limit: int

    def _range(self) -> Range[LogEntry]:
        first = f"log/{number(self.after + 1)}"
        return Range(self.ref.partition, first, after("log/"), LogEntry, limit=self.limit)

    def reads(self) -> Reads:
        return Reads(peeks=(head_key(self.ref.partition),), ranges=(self._range(),))

    def decide(self, view: View, now: Instant) -> Decision[list[LogEntry]]:
        glimpsed_head(view, self.ref)
        entries: list[LogEntry] = []
        for entry in view.find(self._range()):
            if entry.seq != self.after + 1 + len(entries):
                break
            entries.append(entry)
        return Decision(entries)
