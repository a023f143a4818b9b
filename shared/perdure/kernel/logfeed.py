"""The log as a feed: entries in order, up to the first that is not there yet."""

from __future__ import annotations

from dataclasses import dataclass

from perdure.kernel.errors import Corrupt
from perdure.kernel.ids import Instant, Seq
from perdure.kernel.log import LogEntry, log_key
from perdure.kernel.places import after, number
from perdure.kernel.records import Head, head_key
from perdure.kernel.request import WorldRequest
from perdure.kernel.seen import SeenInPart
from perdure.kernel.view import Decision, Range, Reads, View
from perdure.kernel.wake import glimpsed_head


@dataclass(frozen=True, slots=True)
class LogFeed(WorldRequest):
    """Read log entries behind ``after``. A gap ends the answer: the rest is not visible yet.

    With ``to_head`` it ends where the log does, and nowhere before: raises Corrupt for an entry
    that is lost.
    """

    after: Seq
    limit: int
    to_head: bool = False

    def _range(self) -> Range[LogEntry]:
        first = f"log/{number(self.after + 1)}"
        return Range(self.ref.partition, first, after("log/"), LogEntry, limit=self.limit)

    def reads(self) -> Reads:
        return Reads(peeks=(head_key(self.ref.partition),), ranges=(self._range(),))

    def decide(self, view: View, now: Instant) -> Decision[list[LogEntry]]:
        head = glimpsed_head(view, self.ref)
        entries: list[LogEntry] = []
        for entry in view.find(self._range()):
            if entry.seq != self.after + 1 + len(entries):
                break
            entries.append(entry)
        if self.to_head and not entries and head.seq > self.after:
            return Decision([self._next(view, head)])
        return Decision(entries)

    def _next(self, view: View, head: Head) -> LogEntry:
        """Return the entry that the range left out. Raises Missing, SeenInPart, at last Corrupt."""
        key = log_key(self.ref.partition, Seq(self.after + 1))
        entry = view.peek(key)
        if entry is None:
            lost = Corrupt(
                expected=f"log entry {self.after + 1} of world {self.ref.world!r}, whose head is"
                f" at {head.seq}",
                found="none",
            )
            raise SeenInPart((key,), lost)
        return entry
