"""The model at the command line: look for violations, or play one seed again."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

from tests.models.play import MIXES, Played, play
from tests.models.rules import Rules
from tests.models.truth import Promise


def main(arguments: list[str] | None = None) -> int:
    """Return 1 if a promise was broken, else 0."""
    options = _parser().parse_args(arguments)
    if options.rules:
        return _say(0, *(f"{rule:17} {Rules.text(rule)}" for rule in Rules.names()))
    rules = Rules().without(*options.without)
    if options.replay is not None:
        played = play(options.replay, rules, options.mix or "everyday")
        return _say(int(played.promise is not None), played.trace())
    seeds = range(options.start, options.start + options.seeds)
    broken = _shortest(_plays(rules, seeds, [options.mix] if options.mix else list(MIXES)))
    if not broken:
        return _say(0, f"{len(seeds)} seeds: no promise was broken")
    stories = (
        f"\nbroken by {count} of {len(seeds)} seeds: {promise}\n{played.trace()}"
        for promise, (count, played) in broken.items()
    )
    return _say(1, *stories)


def _say(code: int, *lines: str) -> int:
    sys.stdout.write("\n".join(lines) + "\n")
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.models", description=__doc__)
    parser.add_argument("--seeds", type=int, default=10_000, help="how many plays")
    parser.add_argument("--start", type=int, default=0, help="the first seed")
    parser.add_argument(
        "--without", type=_rules, default=(), metavar="RULE,…", help="rules to leave out"
    )
    parser.add_argument("--mix", choices=MIXES, help="one mix of actors; otherwise all in turn")
    parser.add_argument("--replay", type=int, metavar="SEED", help="play one seed, tell it all")
    parser.add_argument("--rules", action="store_true", help="list the rules")
    return parser


def _rules(text: str) -> tuple[str, ...]:
    names = tuple(filter(None, text.split(",")))
    if unknown := set(names) - set(Rules.names()):
        raise argparse.ArgumentTypeError(f"expected rules that --rules lists, found {unknown}")
    return names


def _plays(rules: Rules, seeds: range, mixes: list[str]) -> Iterator[Played]:
    for seed in seeds:
        yield play(seed, rules, mixes[seed % len(mixes)])


def _shortest(plays: Iterator[Played]) -> dict[Promise, tuple[int, Played]]:
    """Count the plays that broke each promise, and keep the shortest of them."""
    broken: dict[Promise, tuple[int, Played]] = {}
    for played in plays:
        if played.promise is None:
            continue
        count, shortest = broken.get(played.promise, (0, played))
        if len(played.store.trace) < len(shortest.store.trace):
            shortest = played
        broken[played.promise] = (count + 1, shortest)
    return broken


if __name__ == "__main__":
    sys.exit(main())
