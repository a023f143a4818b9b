"""The mutations at the command line: apply each to a copy of the product code, and see it caught."""

from __future__ import annotations

import argparse
import shlex
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from tests.simulator.mutations import report
from tests.simulator.mutations.every import MUTATIONS
from tests.simulator.mutations.mutation import ROOT, Mutation
from tests.simulator.mutations.proofs import Simulated
from tests.simulator.mutations.run import trials

WIDTH = 180
"""Characters of a line where no terminal says how many fit."""

PAGE = ROOT / "docs" / "reliability.md"


def main(arguments: list[str] | None = None) -> int:
    """Return 1 if a mutation survived, or if a proof fails without any."""
    given = sys.argv[1:] if arguments is None else arguments
    options = _parser().parse_args(given)
    console = Console(width=None if sys.stdout.isatty() else WIDTH)
    chosen = [MUTATIONS[name] for name in options.only] if options.only else [*MUTATIONS.values()]
    if options.seeds is not None:
        chosen = [_with_seeds(each, options.seeds) for each in chosen]
    if options.list:
        _listed(chosen, console)
        return 0
    done = report.printed(trials(chosen, jobs=options.jobs), console)
    if options.write_docs:
        command = shlex.join(["python", "-m", "tests.simulator.mutations", *given])
        report.write_docs(options.page, done, command=command, at=datetime.now(UTC))
    return 0 if all(each.is_caught for each in done) else 1


def _with_seeds(mutation: Mutation, seeds: int) -> Mutation:
    """Return a mutation with another number of plays, if it is plays that have to notice it."""
    proof = mutation.proof
    if isinstance(proof, Simulated):
        return replace(mutation, proof=replace(proof, seeds=seeds))
    return mutation


def _listed(mutations: list[Mutation], console: Console) -> None:
    for each in mutations:
        console.print(f"{each.name:40} {each.breaks}", markup=False, soft_wrap=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.simulator.mutations", description=__doc__
    )
    parser.add_argument(
        "--only", action="append", choices=MUTATIONS, metavar="NAME", help="may be repeated"
    )
    parser.add_argument("--list", action="store_true", help="say what each of them breaks")
    parser.add_argument("--seeds", type=int, help="play so many seeds at most for each")
    parser.add_argument("--jobs", type=int, default=1, help="how many are tried at a time")
    parser.add_argument(
        "--write-docs", action="store_true", help="put the table into docs/reliability.md"
    )
    parser.add_argument("--page", type=Path, default=PAGE, help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    sys.exit(main())
