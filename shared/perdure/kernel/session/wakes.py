"""Hints of sessions, listed for whoever looks for work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from perdure.kernel.hints import HintsDue
from perdure.kernel.ids import Instant, Partition
from perdure.kernel.session.records import SessionWake, session_wake_partition
from perdure.kernel.view import Decision, View


@dataclass(frozen=True, slots=True)
class SessionWakes(HintsDue[SessionWake]):
    """List the hints of one shard that are due by ``through``, earliest first."""

    of: ClassVar[type[SessionWake]] = SessionWake

    @property
    def stream(self) -> Partition:
        return session_wake_partition(self.shard)

    def decide(self, view: View, now: Instant) -> Decision[tuple[SessionWake, ...]]:
        return Decision(self.found(view))
