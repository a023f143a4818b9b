"""Callers: who asks for something, as the log keeps it, and how much they may ask for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal

Origin = Literal["local", "gateway", "session"]


@dataclass(frozen=True, slots=True)
class Allowance:
    """What a caller may spend in each window of time, and what one thing asked for costs."""

    units: int
    window_ms: int
    cost: int = 1
    """Units for each command of a batch, and for any other request."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks: someone trusted in this process, an actor with a token, or the agent of one."""

    actor: str | None = None
    origin: Origin = "local"
    allowance: Allowance | None = None
    """None for a caller without a quota."""

    @property
    def facts(self) -> dict[str, str]:
        """Spell the caller for a log entry; of a trusted one there is nothing to say."""
        return {} if self.actor is None else {"actor": self.actor, "origin": self.origin}

    @property
    def paid(self) -> Caller:
        """The same caller, who owes nothing more: for the later commits of one request."""
        return replace(self, allowance=None)


LOCAL: Final = Caller()
"""Someone with the storage in hand, who could change it anyway."""
