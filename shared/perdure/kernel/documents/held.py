"""What the head of a store says of an owner that one process has in hand."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from perdure.kernel.ids import Epoch, Holder, Instant
from perdure.kernel.limits import LEASE_MS_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOwner:
    """That one process has an owner's documents and tables in hand."""

    owner: str
    epoch: Epoch
    holder: Holder
    until: Instant

    def is_running(self, now: Instant) -> bool:
        """Say whether its lease still runs. One further ahead than any was written by a wrong clock."""
        return now < self.until <= now + LEASE_MS_MAX

    def lasting(self, until: Instant, now: Instant) -> Self:
        """Return what it is when it lasts until then, or longer if it does so already."""
        if self.is_running(now) and until <= self.until:
            return self
        return replace(self, until=until)
