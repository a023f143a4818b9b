"""The demo: one real day of air traffic through a durable world, from HTTP to Iceberg and back."""

from __future__ import annotations

import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypeAlias

import click
import httpx
from rich.console import Console
from rich.table import Table

from airspace import whatif
from airspace.client import HttpClient, Problem
from airspace.course import WORLD_ID, Course, run_day
from airspace.flights import TICKS, Day, Flight, airborne_by_tick, real_day, served
from airspace.picture import Sightings, clock, draw
from airspace.processes import emulator, read_back, token
from airspace.report import Bars, Outcome, table_of
from perdure import PerdureError, Unavailable

PICTURE_FILE: Final = "day.png"
REQUEST_SECONDS: Final = 600.0

REFUSED: Final = 1
UNAVAILABLE: Final = 3
INTERRUPTED: Final = 130


Show: TypeAlias = Callable[[Path, Console], tuple[Table, bool]]
"""A way to use a directory: what it returns is a table to show, and whether all is as it should be."""


class Stopped(Exception):
    """Why the demo ended early, in one line, its exit code, and whether the next run may go on."""

    def __init__(self, reason: str, exit_code: int, *, can_go_on: bool = True) -> None:
        super().__init__(reason)
        self.exit_code = exit_code
        self.can_go_on = can_go_on


@click.command(help="Replay 1 January 2013: 805 flights out of New York, minute by minute.")
@click.option(
    "--root",
    type=click.Path(file_okay=False, path_type=Path),
    help="Keep the data here, and go on from what is here. Without it, in a new directory.",
)
@click.option(
    "--what-if",
    is_flag=True,
    help="Fork the day at 12:00, close Newark in the fork, and compare the two evenings.",
)
def main(root: Path | None, *, what_if: bool) -> None:
    """Run the demo and end the process with its exit code."""
    # A polite kill ends like Ctrl-C, so that the emulator is stopped too.
    for ending in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ending, signal.default_int_handler)
    console = Console(highlight=False)
    kept = Path(tempfile.mkdtemp(prefix="perdure-demo-")) if root is None else root
    try:
        table, is_as_promised = demonstrated(kept, console, two_evenings if what_if else one_day)
    except Stopped as stopped:
        errors = Console(stderr=True, highlight=False, soft_wrap=True)
        errors.print(f"demo: {stopped}", markup=False)
        if stopped.can_go_on:
            again = f"scripts/demo{' --what-if' if what_if else ''} --root {kept}"
            errors.print(f"To go on where it stopped: {again}", markup=False)
        sys.exit(stopped.exit_code)
    console.print(table)
    if not is_as_promised:
        sys.exit(REFUSED)


def one_day(root: Path, console: Console) -> tuple[Table, bool]:
    """Show the day over HTTP."""
    outcome = shown(root, console)
    return table_of(outcome), not outcome.disagreeing


def two_evenings(root: Path, console: Console) -> tuple[Table, bool]:
    """Show the day and its fork, in this process."""
    outcome = whatif.ran(root, console)
    return whatif.table_of(outcome), not outcome.differences


def demonstrated(root: Path, console: Console, show: Show) -> tuple[Table, bool]:
    """Do all of the demo but the last word. Raises Stopped."""
    try:
        root.mkdir(parents=True, exist_ok=True)
        return show(root.resolve(), console)
    except KeyboardInterrupt:
        raise Stopped("interrupted; nothing that was accepted is lost.", INTERRUPTED) from None
    except OSError as error:
        reason = f"cannot use {root}: {error.strerror}."
        raise Stopped(reason, REFUSED, can_go_on=False) from error
    except httpx.TransportError as error:
        raise Stopped(f"the emulator does not answer ({error}).", UNAVAILABLE) from error
    except Problem as problem:
        raise Stopped(str(problem), UNAVAILABLE if problem.may_pass else REFUSED) from problem
    except PerdureError as error:
        may_pass = isinstance(error, Unavailable)
        raise Stopped(str(error), UNAVAILABLE if may_pass else REFUSED) from error


def shown(root: Path, console: Console) -> Outcome:
    """Replay, read back, compare and draw."""
    day = real_day()
    began = time.perf_counter()
    with Bars(console) as bars:
        with emulator(root) as address:
            course = over_http(address, token(root), day.flights, bars)
        bars("read", 0, None)
        reading = time.perf_counter()
        sightings = read_back(root, WORLD_ID)
        read_seconds = time.perf_counter() - reading
        bars("read", 1, 1)

        bars("draw", 0, None)
        picture = root / PICTURE_FILE
        draw(sightings, served(day.flights), picture)
        bars("draw", 1, 1)
    return judged(
        day, course, sightings, picture, read_seconds=read_seconds, since=began, root=root
    )


def over_http(address: str, bearer: str, flights: Sequence[Flight], bars: Bars) -> Course:
    """Run the course of the day against the emulator at ``address``."""
    with httpx.Client(
        base_url=address,
        headers={"Authorization": f"Bearer {bearer}"},
        timeout=httpx.Timeout(REQUEST_SECONDS, connect=10),
        trust_env=False,
    ) as http:
        client = HttpClient(http, pause=time.sleep)  # noqa: TID251 (wiring: the real clock)
        return run_day(client, flights, watch=bars, now=time.perf_counter)


def judged(
    day: Day,
    course: Course,
    sightings: Sightings,
    picture: Path,
    *,
    read_seconds: float,
    since: float,
    root: Path,
) -> Outcome:
    """Compare what came back from the lake with what the file says."""
    expected, found = airborne_by_tick(day.flights), sightings.airborne().tolist()
    peak = found.index(max(found))
    return Outcome(
        day=day,
        course=course,
        rows_read=len(sightings.ticks),
        peak=f"{found[peak]:,} at {clock(peak)} (tick {peak:,})",
        disagreeing=[tick for tick in range(TICKS) if expected[tick] != found[tick]],
        data_files=sum(1 for _ in root.rglob("*.parquet")),
        read_seconds=read_seconds,
        total_seconds=time.perf_counter() - since,
        picture=picture,
        root=root,
    )
