"""One real day of departures from New York, read from the file, row by row, with nothing lost."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from itertools import accumulate
from typing import Final, Literal

FLIGHTS_FILE: Final = "flights-2013-01-01.csv"
AIRPORTS_FILE: Final = "airports.csv"

TICKS: Final = 1_500
"""Ticks 0 to 1499 are replayed: the day (0 to 1439) and the first hour after it.

The last take-off is at tick 1423 and the last landing at 1696; after tick 1499 nineteen late flights
are still in the air, and their `despawn` commands stay pending.
"""

MINUTES_OF_A_DAY: Final = 1_440
NOT_AVAILABLE: Final = "NA"

Reason = Literal["never_flown", "unknown_airport", "unreadable"]


@dataclass(frozen=True, slots=True)
class Airport:
    """A place on the ground; coordinates in degrees, north and east positive."""

    code: str
    latitude: float
    longitude: float


@dataclass(frozen=True, slots=True)
class Flight:
    """A flight that flew: in the air at tick t if and only if departure_tick <= t < arrival_tick."""

    carrier: str
    number: int
    tail: str
    origin: Airport
    destination: Airport
    departure_tick: int
    arrival_tick: int


@dataclass(frozen=True, slots=True)
class Unusable:
    """A row that cannot be replayed: its line in the file (the header is line 1) and why."""

    line: int
    reason: Reason
    detail: str


@dataclass(frozen=True, slots=True)
class Day:
    """All rows of the file, each either a flight or unusable."""

    flights: tuple[Flight, ...]
    unusable: tuple[Unusable, ...]


def real_day() -> Day:
    """Read the packaged day: 842 rows, 805 flights."""
    return parsed(packaged(FLIGHTS_FILE).splitlines(), known_airports())


def known_airports() -> dict[str, Airport]:
    """Read the packaged airports, by code."""
    rows = csv.DictReader(packaged(AIRPORTS_FILE).splitlines())
    return {row["faa"]: Airport(row["faa"], float(row["lat"]), float(row["lon"])) for row in rows}


def packaged(name: str) -> str:
    """Return the text of a data file of this package."""
    return resources.files("airspace").joinpath("data", name).read_text(encoding="utf-8")


def parsed(lines: Iterable[str], airports: Mapping[str, Airport]) -> Day:
    """Judge every row of a flights file, header first, in order."""
    judged = [judge(line, row, airports) for line, row in enumerate(csv.DictReader(lines), start=2)]
    return Day(
        flights=tuple(row for row in judged if isinstance(row, Flight)),
        unusable=tuple(row for row in judged if isinstance(row, Unusable)),
    )


def judge(line: int, row: Mapping[str, str], airports: Mapping[str, Airport]) -> Flight | Unusable:
    """Return the flight of one row, or why there is none."""
    for column, name in (("dep_time", "departure time"), ("air_time", "air time")):
        if row[column] == NOT_AVAILABLE:
            return Unusable(line, "never_flown", f"no {name}")
    for column in ("origin", "dest"):
        if row[column] not in airports:
            return Unusable(line, "unknown_airport", row[column])
    try:
        departure = tick_of(row["dep_time"])
        return Flight(
            carrier=row["carrier"],
            number=int(row["flight"]),
            tail=row["tailnum"],
            origin=airports[row["origin"]],
            destination=airports[row["dest"]],
            departure_tick=departure,
            arrival_tick=departure + minutes_of(row["air_time"]),
        )
    except ValueError as error:
        return Unusable(line, "unreadable", str(error))


def tick_of(hhmm: str) -> int:
    """Return the minute of the day of a local time such as 517, 0005, or 2400, the day's end.

    Raises: ValueError if no clock shows it.
    """
    hour, minute = divmod(int(hhmm), 100)
    tick = hour * 60 + minute
    if not (0 <= minute < 60 and 0 <= tick <= MINUTES_OF_A_DAY):
        raise ValueError(f"Expected a time as hhmm from 0000 to 2400; found {hhmm}.")
    return tick


def minutes_of(text: str) -> int:
    """Return a duration of at least one minute. Raises ValueError."""
    minutes = int(text)
    if minutes < 1:
        raise ValueError(f"Expected at least one minute in the air; found {text}.")
    return minutes


def airborne_by_tick(flights: Iterable[Flight], *, ticks: int = TICKS) -> list[int]:
    """Count the flights in the air at each of the ticks 0 to ``ticks`` - 1."""
    changes: Counter[int] = Counter()
    for flight in flights:
        changes[flight.departure_tick] += 1
        changes[flight.arrival_tick] -= 1
    return list(accumulate(changes[tick] for tick in range(ticks)))


def served(flights: Iterable[Flight]) -> list[Airport]:
    """Return the airports of ``flights``, by code."""
    airports = {end.code: end for flight in flights for end in (flight.origin, flight.destination)}
    return [airports[code] for code in sorted(airports)]
