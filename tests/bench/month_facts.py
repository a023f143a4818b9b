"""What the file says of a month of flights, read with nothing of what is measured."""

from __future__ import annotations

import csv
import gzip
from collections import Counter
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

DATA = Path(__file__).parents[2] / "shared" / "airspace" / "data"
FLIGHTS = DATA / "flights-2013-01.csv.gz"
AIRPORTS = DATA / "airports.csv"
MINUTES_OF_A_DAY = 1_440

Label = tuple[str, int, str, str, str]
"""Carrier, number, registration, origin and destination."""


@dataclass(frozen=True)
class Facts:
    """The first days of the month, in minutes since it began. A flight is one (from, until)."""

    days: int
    lines: int
    """Lines of the file for these days, also of flights that did not fly or that go off the map."""
    spans: tuple[tuple[int, int], ...]
    labels: tuple[Label, ...]

    @property
    def ticks(self) -> int:
        return self.days * MINUTES_OF_A_DAY

    @property
    def landed(self) -> int:
        """Flights that end before the last tick, or at it."""
        return sum(until < self.ticks for _, until in self.spans)

    def airborne(self) -> list[int]:
        """Count the flights in the air at every tick."""
        begin, end = Counter(start for start, _ in self.spans), self._ends()
        return list(accumulate(begin[at] - end[at] for at in range(self.ticks)))

    def rows(self) -> list[int]:
        """Count the rows of every tick: each flight in the air moves, and those that end say so."""
        ends = self._ends()
        return [count + ends[at] for at, count in enumerate(self.airborne())]

    def in_the_air(self, tick: int) -> Counter[Label]:
        """Name the flights in the air at a tick."""
        pairs = zip(self.spans, self.labels, strict=True)
        return Counter(label for (start, until), label in pairs if start <= tick < until)

    def _ends(self) -> Counter[int]:
        return Counter(until for _, until in self.spans)


def facts(days: int) -> Facts:
    """Read the flights of the first ``days`` days that flew, between airports that are known."""
    with AIRPORTS.open(newline="", encoding="utf-8") as file:
        known = {row["faa"] for row in csv.DictReader(file)}
    with gzip.open(FLIGHTS, "rt", newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if int(row["day"]) <= days]
    flown = [
        row
        for row in rows
        if "NA" not in (row["dep_time"], row["air_time"]) and {row["origin"], row["dest"]} <= known
    ]
    spans = [(_minute(row["day"], row["dep_time"]), int(row["air_time"])) for row in flown]
    labels = [
        (row["carrier"], int(row["flight"]), row["tailnum"], row["origin"], row["dest"])
        for row in flown
    ]
    return Facts(
        days, len(rows), tuple((start, start + minutes) for start, minutes in spans), tuple(labels)
    )


def _minute(day: str, hhmm: str) -> int:
    padded = hhmm.zfill(4)
    return (int(day) - 1) * MINUTES_OF_A_DAY + int(padded[:-2]) * 60 + int(padded[-2:])
