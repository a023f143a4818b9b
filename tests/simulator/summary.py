"""What many plays came to, and where they stopped."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tests.simulator.play import Played, play


@dataclass(slots=True)
class Summary:
    """Counts of all plays, and the one that broke an invariant."""

    plays: int = 0
    steps: int = 0
    commits: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    met: Counter[str] = field(default_factory=Counter)
    broken: Played | None = None

    def add(self, played: Played) -> None:
        """Count one play more."""
        self.plays += 1
        self.steps += played.steps
        self.commits += played.commits
        self.faults += played.faults
        self.outcomes += played.outcomes
        self.met += played.met
        if played.violation is not None:
            self.broken = played

    def lines(self) -> Iterator[str]:
        """Put the counts into words."""
        yield f"{self.plays} plays, {self.steps} steps, {self.commits} commits"
        for title, counts in (
            ("faults", self.faults),
            ("outcomes", self.outcomes),
            ("answers", self.met),
        ):
            yield f"{title}: " + ", ".join(f"{counts[kind]} {kind}" for kind in sorted(counts))


def played(
    mixes: Sequence[str], *, seed: int = 0, steps: int | None = None, seeds: int | None = None
) -> Summary:
    """Play seeds until so many steps were taken, or so many seeds played, or one breaks."""
    summary = Summary()
    for each in itertools.count(seed):
        enough = summary.plays if seeds is not None else summary.steps
        if enough >= (seeds if seeds is not None else steps or 0) or summary.broken is not None:
            return summary
        summary.add(play(each, mixes[each % len(mixes)]))
    return summary
