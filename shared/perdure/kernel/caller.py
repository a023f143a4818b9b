"""Callers: who asks for something, as the log keeps it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Origin = Literal["local", "gateway"]


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks, and by which way: someone trusted in this process, or an actor with a token."""

    actor: str | None = None
    origin: Origin = "local"

    @property
    def facts(self) -> dict[str, str]:
        """Spell the caller for a log entry; of a trusted one there is nothing to say."""
        return {} if self.actor is None else {"actor": self.actor, "origin": self.origin}


LOCAL: Final = Caller()
"""Someone with the storage in hand, who could change it anyway."""
