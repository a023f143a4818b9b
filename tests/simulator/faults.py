"""What may go wrong, how often, and what did: drawn from the seed of a play."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random

Odds = Mapping[str, float]
"""Of each kind of fault, the chance that it hits one call."""

COMMIT_FAULTS = ("lost before", "lost after", "late", "twice", "conflict", "busy")
"""A commit that never arrives; one whose answer is lost; one that arrives after its sender gave up;
one that is applied twice, the second time onto itself; a rival's conflict that is none; throttling."""

LOAD_FAULTS = ("no answer to a load",)


HOP_SECONDS = 0.01


@dataclass(frozen=True, slots=True)
class Weather:
    """How likely each fault is while a play lasts."""

    commits: Odds = field(default_factory=dict)
    loads: Odds = field(default_factory=dict)
    objects: Odds = field(default_factory=dict)
    tables: Odds = field(default_factory=dict)
    burst: float = 0.0
    """The chance that a conflict or a throttling is the first of several."""

    crash: float = 0.0
    """The chance of a death, for each step of a process."""

    freeze: float = 0.0
    """The chance that a process stands still for minutes, for each of its steps."""

    skew_ms: int = 0
    """How far the clock of a process may be off, either way."""

    torn: float = 0.0
    """The chance that the records of a commit show one after another."""

    shows_within_seconds: float = 0.05
    """How long a part of such a commit may not show, if nobody was told of it."""

    shows_early: float = 0.2
    """The chance, for each look, that a part shows from then on."""

    house: float = 0.0
    """The chance that a catalog expires snapshots, for each load of a table."""

    messages: Odds = field(default_factory=dict)

    page_records: int = 4
    """Records of one answer to a range, at most, where answers come in pages."""


CALM = Weather(page_records=1_000)


@dataclass(slots=True)
class Faults:
    """Draws faults, and counts them by kind."""

    chance: Random
    weather: Weather
    pace: float = 1.0
    """How long everything but the wire takes: less makes actors meet more often."""

    seen: Counter[str] = field(default_factory=Counter)
    _burst: dict[str, int] = field(default_factory=dict)

    def calm(self) -> None:
        """Nothing goes wrong any more."""
        self.weather = CALM
        self._burst.clear()

    def drawn(self, odds: Odds) -> str | None:
        """Return the fault that hits one call, or None."""
        for kind, left in self._burst.items():
            if left and kind in odds:
                self._burst[kind] = left - 1
                self.seen[kind] += 1
                return kind
        drawn = self.chance.random()
        for kind, odd in odds.items():
            drawn -= odd
            if drawn < 0:
                self.seen[kind] += 1
                if kind in ("conflict", "busy") and self.chance.random() < self.weather.burst:
                    self._burst[kind] = self.chance.randint(1, 6)
                return kind
        return None

    def hop(self) -> float:
        """Draw how many seconds one way over the wire takes: now and then, long."""
        drawn = self.chance.random()
        return drawn * HOP_SECONDS if drawn < 0.95 else drawn * HOP_SECONDS * 20

    def hits(self, kind: str, odd: float) -> bool:
        """Say whether a fault of one kind hits, and count it."""
        if odd and self.chance.random() < odd:
            self.seen[kind] += 1
            return True
        return False
