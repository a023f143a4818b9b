"""A closed airport: which flights it grounds, and which others lose their aircraft by it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from airspace.flights import Flight


@dataclass(frozen=True, slots=True)
class Closing:
    """An airport from which nothing departs after a tick."""

    airport: str
    after_tick: int


@dataclass(frozen=True, slots=True)
class Grounded:
    """The flights that a closing prevents, each of them once."""

    held: tuple[Flight, ...]
    """Those that would depart from the closed airport."""

    stranded: tuple[Flight, ...]
    """Those from elsewhere whose aircraft stands at the closed airport."""

    @property
    def flights(self) -> frozenset[Flight]:
        """All of them."""
        return frozenset(self.held + self.stranded)


def grounded(flights: Iterable[Flight], closing: Closing) -> Grounded:
    """Tell what a closing prevents of a day.

    An aircraft, known by its registration, stays where its first held flight left it: whatever it
    would fly later that day, from wherever, does not happen either.
    """
    day = sorted(flights, key=lambda flight: flight.departure_tick)
    held: list[Flight] = []
    stranded: list[Flight] = []
    left_behind: set[str] = set()
    for flight in day:
        if flight.departure_tick <= closing.after_tick:
            continue
        if flight.origin.code == closing.airport:
            held.append(flight)
            left_behind.add(flight.tail)
        elif flight.tail in left_behind:
            stranded.append(flight)
    return Grounded(tuple(held), tuple(stranded))
