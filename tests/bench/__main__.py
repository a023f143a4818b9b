"""The measurements at the command line: a table, JSON on request, figures for the docs."""

from __future__ import annotations

import argparse
import json
import shlex
import signal
import sys
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from rich.console import Console
from tests.bench import report
from tests.bench.bench import FULL, QUICK
from tests.bench.run import CASES, ROOT, chosen, measured

WIDTH = 180
"""Characters of a line where no terminal says how many fit."""

PAGE = ROOT / "docs" / "performance.md"


def main(arguments: list[str] | None = None) -> int:
    """Measure and report. Figures are never judged by the exit code."""
    # A polite kill unwinds as Ctrl-C does: servers are stopped, and directories are gone.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    given = sys.argv[1:] if arguments is None else arguments
    parser = _parser()
    options = parser.parse_args(given)
    if options.write_docs and options.quick:
        parser.error("--quick only shows that measurements run: nothing of it is for the docs")
    names = chosen(options.only or (), options.skip or (), peers=options.peers)
    scale = QUICK if options.quick else FULL
    if options.days is not None:
        scale = replace(scale, month_days=options.days)
    command = shlex.join(["python", "-m", "tests.bench", *given])
    at = datetime.now(UTC)
    errors = Console(stderr=True)
    with errors.status("measuring") as status:
        say = status.update if errors.is_terminal else partial(errors.print, highlight=False)
        cases, facts = measured(names, scale, root=options.root, say=say, peers=options.peers)
    report.printed(cases, facts, Console(width=None if sys.stdout.isatty() else WIDTH))
    if options.json is not None:
        values = report.spelled(cases, facts, command=command, scale=scale.name, at=at)
        options.json.write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")
    if options.write_docs:
        report.write_docs(PAGE, cases, facts, command=command, at=at)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="tiny sizes: does it still work?")
    parser.add_argument(
        "--only", action="append", choices=CASES, help="measure this case (may be repeated)"
    )
    parser.add_argument(
        "--skip", action="append", choices=CASES, help="leave out this case (may be repeated)"
    )
    parser.add_argument(
        "--peers", action="store_true", help="measure other products too, installed on demand"
    )
    parser.add_argument(
        "--days", type=int, choices=range(1, 32), metavar="N", help="days of the month, 1 to 31"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the report as JSON")
    parser.add_argument(
        "--root", type=Path, default=ROOT, metavar="DIR", help="put data on the disk of DIR"
    )
    parser.add_argument(
        "--write-docs", action="store_true", help="put the table into docs/performance.md"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
