"""The simulator at the command line: look for violations, or play one seed again."""

from __future__ import annotations

import argparse
import itertools
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.simulator.play import MIXES, Played, play

STEPS = 100_000


@dataclass(slots=True)
class Summary:
    """What many plays came to."""

    plays: int = 0
    steps: int = 0
    commits: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    met: Counter[str] = field(default_factory=Counter)

    def add(self, played: Played) -> None:
        self.plays += 1
        self.steps += played.steps
        self.commits += played.commits
        self.faults += played.faults
        self.outcomes += played.outcomes
        self.met += played.met

    def lines(self) -> Iterator[str]:
        yield f"{self.plays} plays, {self.steps} steps, {self.commits} commits"
        for title, counts in (
            ("faults", self.faults),
            ("outcomes", self.outcomes),
            ("answers", self.met),
        ):
            yield f"{title}: " + ", ".join(f"{counts[kind]} {kind}" for kind in sorted(counts))


def main(arguments: list[str] | None = None) -> int:
    """Return 1 if an invariant was broken, else 0."""
    options = _parser().parse_args(arguments)
    mixes = [options.mix] if options.mix else list(MIXES)
    if options.replay is not None:
        played = play(options.replay, mixes[options.replay % len(mixes)])
        return _say(int(played.violation is not None), played.trace())
    summary = Summary()
    for seed in itertools.count(options.seed):
        if options.seeds is not None:
            if summary.plays == options.seeds:
                break
        elif summary.steps >= options.steps:
            break
        played = play(seed, mixes[seed % len(mixes)])
        summary.add(played)
        if played.violation is not None:
            told = f"seed {seed}: {played.violation}\nreplay: {played.replay}"
            return _say(1, told, *summary.lines())
    return _say(0, *summary.lines(), "no invariant was broken")


def _say(code: int, *lines: str) -> int:
    sys.stdout.write("\n".join(lines) + "\n")
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.simulator", description=__doc__)
    parser.add_argument("--steps", type=int, default=STEPS, help="play until so many were taken")
    parser.add_argument("--seeds", type=int, help="how many plays, whatever steps they take")
    parser.add_argument("--seed", "--start", type=int, default=0, help="the first seed")
    parser.add_argument("--mix", choices=MIXES, help="one mix of actors; otherwise all in turn")
    parser.add_argument("--replay", type=int, metavar="SEED", help="play one seed, tell it all")
    return parser


if __name__ == "__main__":
    sys.exit(main())
