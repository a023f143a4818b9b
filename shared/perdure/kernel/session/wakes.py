"""Hints of sessions, listed for whoever looks for work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from perdure.kernel.ids import Instant, Partition
from perdure.kernel.places import MINUTE_MS, number
from perdure.kernel.session.records import SessionWake, session_wake_partition
from perdure.kernel.view import Decision, Range, Reads, View


@dataclass(frozen=True, slots=True)
class SessionWakes:
    """List the hints of one shard that are due by ``through``, earliest first."""

    shard: int
    through: Instant
    limit: int = 500
    beyond: str = ""
    """Only hints behind this one."""

    once: ClassVar[bool] = False

    @property
    def stream(self) -> Partition:
        return session_wake_partition(self.shard)

    def _range(self) -> Range[SessionWake]:
        last = f"{number(self.through // MINUTE_MS + 1)}/"
        first = f"{self.beyond}/" if self.beyond else ""
        return Range(self.stream, first, last, SessionWake, limit=self.limit)

    def reads(self) -> Reads:
        return Reads(ranges=(self._range(),))

    def decide(self, view: View, now: Instant) -> Decision[tuple[SessionWake, ...]]:
        return Decision(tuple(view.find(self._range())))
