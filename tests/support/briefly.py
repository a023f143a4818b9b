"""The real day made short: a tick stands for ten minutes, and the world begins shortly before the first flight."""

from __future__ import annotations

from dataclasses import replace

from airspace.flights import Flight, real_day

MINUTES = 10
"""Of the day, in one tick: who is in the air at a tick is who is at that minute of the file."""

BEGIN = 10
"""The tick of the long night that is tick 0 here: the first flight leaves at 05:17, in tick 22."""


def short_flights(until: int) -> list[Flight]:
    """Return the flights that leave by tick ``until``, in ticks of ten minutes."""
    flights = [
        replace(
            flight,
            departure_tick=_short(flight.departure_tick),
            arrival_tick=_short(flight.arrival_tick),
        )
        for flight in real_day().flights
    ]
    return [flight for flight in flights if flight.departure_tick <= until]


def minute(tick: int) -> int:
    """Return the minute of the day that a tick stands for."""
    return (tick + BEGIN) * MINUTES


def tick_at(minute: int) -> int:
    """Return the tick that stands for a minute of the day."""
    assert minute % MINUTES == 0
    return minute // MINUTES - BEGIN


def _short(minute: int) -> int:
    return -(-minute // MINUTES) - BEGIN
