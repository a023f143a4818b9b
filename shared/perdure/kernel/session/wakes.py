"""Hints of sessions, listed for whoever looks for work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from perdure.kernel.ids import Instant, Partition
from perdure.kernel.session.records import SessionWake, session_wake_partition
from perdure.kernel.upkeep import hints_due
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
        return hints_due(
            self.stream, SessionWake, self.through, beyond=self.beyond, limit=self.limit
        )

    def reads(self) -> Reads:
        return Reads(ranges=(self._range(),))

    def decide(self, view: View, now: Instant) -> Decision[tuple[SessionWake, ...]]:
        return Decision(tuple(view.find(self._range())))
