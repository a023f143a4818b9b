"""What if Newark had closed at noon? One day in two worlds, compared in numbers and a picture."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

import perdure
from airspace.app import app
from airspace.evenings import Comparison, Who, compared
from airspace.evenings_picture import draw_evenings
from airspace.flights import TICKS, Flight, real_day, served
from airspace.picture import clock
from airspace.report import Bars, two_columns
from airspace.twodays import TwoDays, run_both

PICTURE_FILE: Final = "evenings.png"

HOURS_SHOWN: Final = (12, 15, 18, 21)
"""Hours after which the table counts, three hours a line."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """All that the table tells."""

    two: TwoDays
    compared: Comparison
    statuses: tuple[Counter[str], Counter[str]]
    """What became, in the source and in the fork, of the departures that the fork had inherited."""

    seconds: float
    picture: Path
    root: Path

    @property
    def differences(self) -> list[str]:
        """Return what is not as a fork promises; nothing, if all is well."""
        found, grounded = self.compared, self.two.grounded
        claims = {
            "the worlds differ before the fork": not found.is_same_before,
            "the fork has departures of its own": bool(found.extra),
            "other flights differ": not found.is_same_otherwise,
            "not just the grounded are missing": found.missing != set(map(who, grounded.flights)),
        }
        return [claim for claim, is_so in claims.items() if is_so]


def ran(root: Path, console: Console) -> Outcome:
    """Run both days in a storage at ``root``, or find them there; compare and draw.

    ``root`` is an absolute path of a directory. Raises: PerdureError kinds.
    """
    began = time.perf_counter()
    with Bars(console) as bars:
        return asyncio.run(_ran(root, bars, began))


async def _ran(root: Path, bars: Bars, began: float) -> Outcome:
    day = real_day()
    async with perdure.open(root.as_uri(), app=app) as storage:
        two = await run_both(storage, day.flights, watch=bars)
        bars("compare", 0, None)
        found = await compared(two)
        statuses: list[Counter[str]] = [
            Counter([(await world.command(each.command_id)).status for each in two.inherited])
            for world in (two.source, two.fork)
        ]
        bars("compare", 1, 1)
    bars("draw", 0, None)
    picture = root / PICTURE_FILE
    draw_evenings(found, served(day.flights), two.closing.airport, picture)
    bars("draw", 1, 1)
    return Outcome(
        two=two,
        compared=found,
        statuses=(statuses[0], statuses[1]),
        seconds=time.perf_counter() - began,
        picture=picture,
        root=root,
    )


def who(flight: Flight) -> Who:
    """Return what tells a flight of the file from all others, as rows say it."""
    return Who(
        origin=flight.origin.code,
        destination=flight.destination.code,
        departure_tick=flight.departure_tick,
        carrier=flight.carrier,
        number=flight.number,
        tail=flight.tail,
    )


def table_of(outcome: Outcome) -> Table:
    """Return the comparison as a table of two columns."""
    return two_columns(lines_of(outcome))


def lines_of(outcome: Outcome) -> list[tuple[str, str]]:
    """Return the lines of the table, as name and text."""
    two, found = outcome.two, outcome.compared
    until = clock(found.fork_tick)
    grounded = two.grounded
    return [
        ("worlds", f"{two.source.world_id}, and {two.fork.world_id}, forked from it at {until}"),
        (f"until {until}", f"{found.rows_before:,} rows, {same(is_so=found.is_same_before)}"),
        ("closed in the fork", f"{two.closing.airport}: {len(grounded.held)} departures held"),
        ("left behind by it", "; ".join(map(told, grounded.stranded)) or "nobody"),
        ("inherited commands", fates(outcome)),
        *counts(found),
        ("missing in the fork", missing(found)),
        ("all other flights", same(is_so=found.is_same_otherwise)),
        ("wall time", f"{outcome.seconds:.1f} s"),
        ("picture", str(outcome.picture)),
        ("data", str(outcome.root)),
    ]


def same(*, is_so: bool) -> str:
    """Say whether two sets of rows are the same."""
    return "the same in both, row by row" if is_so else "NOT the same in both"


def told(flight: Flight) -> str:
    """Tell a flight in a few words."""
    ends = f"{flight.origin.code} to {flight.destination.code}"
    return f"{flight.tail}, {ends} at {clock(flight.departure_tick)}"


def fates(outcome: Outcome) -> str:
    """Say what became of the departures that were open at the fork, in both worlds."""
    told_of = [
        ", ".join(f"{count} {status}" for status, count in sorted(each.items()))
        for each in outcome.statuses
    ]
    return f"{len(outcome.two.inherited)} cancelled: source {told_of[0]}; fork {told_of[1]}"


def counts(found: Comparison) -> list[tuple[str, str]]:
    """Return the lines that count: in the air at some hours, arrivals in the hours that follow."""
    airborne = found.source.airborne(), found.fork.airborne()
    arrivals = found.source.arrivals_by_hour(), found.fork.arrivals_by_hour()
    peak = airborne[0].index(max(airborne[0]))
    moments = [*(hour * 60 for hour in HOURS_SHOWN[1:]), peak, TICKS - 60]
    lines = [
        (f"in the air at {clock(tick)}", f"{airborne[0][tick]} and {airborne[1][tick]}")
        for tick in sorted(moments)
    ]
    for hour in HOURS_SHOWN:
        summed = [sum(each[hour : hour + 3]) for each in arrivals]
        lines.append((f"arrivals {hour} to {hour + 3} h", f"{summed[0]} and {summed[1]}"))
    return lines


def missing(found: Comparison) -> str:
    """Say which destinations lose most."""
    lost = Counter(flight.destination for flight in found.missing)
    ranked = sorted(lost, key=lambda code: (-lost[code], code))[:4]
    most = ", ".join(f"{code} {lost[code]}" for code in ranked)
    return f"{len(found.missing)} departures (most to {most}); {len(found.extra)} more in the fork"
