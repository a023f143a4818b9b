"""Killing at the command line: the matrix of every step, or rounds of `kill -9` under load.

python -m tests.proof.kill matrix                    every act, in one process
python -m tests.proof.kill matrix --acts admission,ticks,landing --when after,lost
python -m tests.proof.kill matrix --real             SIGKILL to real processes, SQLite and files
python -m tests.proof.kill matrix --cloud            DynamoDB and S3 of a local stand-in
python -m tests.proof.kill load --rounds 50 --seed 7

Exit code 1 says that something differed, was lost or came twice.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import dataclasses
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from tests.proof.day import ACTS, small_limits
from tests.proof.deaths import killed
from tests.proof.ground import FileGround, PaperGround
from tests.proof.ground_cloud import CloudGround
from tests.proof.load import Load, loaded
from tests.proof.matrix import WHENS, Matrix, died, played
from tests.proof.reckoning import reckoned
from tests.support.ministack import ministack


def main(arguments: list[str] | None = None) -> int:
    """Kill, print what came of it, and say by the exit code whether all is well."""
    options = _parser().parse_args(arguments)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="perdure-kill-", dir=options.directory) as directory:
        run = _matrix if options.what == "matrix" else _load
        is_well = run(options, Path(directory), Console())
    print(f"{time.monotonic() - began:.0f} s")  # noqa: T201
    return 0 if is_well else 1


def _matrix(options: argparse.Namespace, directory: Path, console: Console) -> bool:
    acts = options.acts.split(",") if options.acts else list(ACTS)
    whens = options.when.split(",") if options.when else [*WHENS]
    if options.real:
        whens = [each for each in whens if each != "lost"]
    with small_limits(), _ground(options, directory) as ground, console.status("killing") as status:
        matrix = played(
            ground,
            directory,
            acts=acts,
            whens=whens,
            dying=killed if options.real else died,
            say=status.update,
        )
    console.print(_table(matrix, whens))
    for each in matrix.differing:
        console.print(f"{each.act}: {each.when} step {each.number}, a {each.kind}", *each.differs)
    return not matrix.differing


@contextlib.contextmanager
def _ground(options: argparse.Namespace, directory: Path) -> Iterator[Any]:
    root = directory / "ground"
    root.mkdir()
    if options.cloud:
        with ministack(directory / "ministack.log") as address:
            yield CloudGround(root, address)
    else:
        yield FileGround(root) if options.real else PaperGround(root)


def _table(matrix: Matrix, whens: list[str]) -> Table:
    headers = {"before": "died before", "after": "died after", "lost": "answer lost"}
    table = Table("act", "steps", *(headers[each] for each in whens), "ended the same")
    for act, steps in matrix.steps.items():
        deaths = [each for each in matrix.deaths if each.act == act]
        counts = [str(sum(each.when == when for each in deaths)) for when in whens]
        same = sum(not each.differs for each in deaths)
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(steps.items()))
        table.add_row(act, kinds, *counts, f"{same} of {len(deaths)}")
    total = sum(steps.total() for steps in matrix.steps.values())
    same = len(matrix.deaths) - len(matrix.differing)
    counts = [str(sum(each.when == when for each in matrix.deaths)) for when in whens]
    table.add_row("all", str(total), *counts, f"{same} of {len(matrix.deaths)}")
    return table


def _load(options: argparse.Namespace, directory: Path, console: Console) -> bool:
    load = Load(seed=options.seed, rounds=options.rounds)
    if options.groups:
        victims = (*load.victims, "client")
        load = dataclasses.replace(load, victims=victims, whole_group=True, options=("--isolate",))
    found = loaded(directory, load, console.print)
    reckoning = asyncio.run(reckoned(found))
    told = dataclasses.asdict(reckoning)
    faults = told.pop("faults")
    table = Table("what", "how many")
    for victim, kills in sorted(found.kills.items()):
        table.add_row(f"kills of {victim}", str(kills))
    for what, count in told.items():
        table.add_row(what, str(count))
    table.add_row("faults", str(len(faults)))
    console.print(table)
    for fault in faults:
        console.print(fault)
    return not faults


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.proof.kill", formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--directory", help="where to work; the system's temporary one by default")
    parts = parser.add_subparsers(dest="what", required=True)
    matrix = parts.add_parser("matrix", help="every step, one death")
    matrix.add_argument("--acts", help=f"some of {','.join(ACTS)}")
    matrix.add_argument("--when", help=f"some of {','.join(WHENS)}")
    ground = matrix.add_mutually_exclusive_group()
    ground.add_argument("--real", action="store_true", help="SIGKILL to real processes")
    ground.add_argument("--cloud", action="store_true", help="on a stand-in for DynamoDB and S3")
    load = parts.add_parser("load", help="kill -9 under load")
    load.add_argument("--rounds", type=int, default=20)
    load.add_argument("--seed", type=int, default=1)
    load.add_argument("--groups", action="store_true", help="whole process groups, functions apart")
    return parser


if __name__ == "__main__":
    sys.exit(main())
