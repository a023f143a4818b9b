"""The simulator at the command line: look for violations, or play one seed again."""

from __future__ import annotations

import argparse
import sys

from tests.simulator.play import MIXES, play
from tests.simulator.summary import played

STEPS = 100_000


def main(arguments: list[str] | None = None) -> int:
    """Return 1 if an invariant was broken, else 0."""
    options = _parser().parse_args(arguments)
    mixes = [options.mix] if options.mix else list(MIXES)
    if options.replay is not None:
        again = play(options.replay, mixes[options.replay % len(mixes)])
        return _say(int(again.violation is not None), again.trace())
    summary = played(mixes, seed=options.seed, steps=options.steps, seeds=options.seeds)
    broken = summary.broken
    if broken is not None:
        told = f"seed {broken.seed}: {broken.violation}\nreplay: {broken.replay}"
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
