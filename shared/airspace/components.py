"""What an aircraft is made of: where it is, where it goes, and who flies it."""

from __future__ import annotations

from perdure import Component


class Position(Component):
    """Where the aircraft is now, in degrees, north and east positive; changes every tick."""

    latitude: float
    longitude: float


class Route(Component):
    """The whole plan, so that a position at any tick follows from this component alone.

    Degrees as in :class:`Position`. Ticks are minutes since 00:00 of the day; the aircraft is over its
    origin at ``departure_tick`` and over its destination at ``arrival_tick``.
    """

    origin: str
    destination: str
    origin_latitude: float
    origin_longitude: float
    destination_latitude: float
    destination_longitude: float
    departure_tick: int
    arrival_tick: int


class Flight(Component):
    """Who flies: the carrier's two-character code, its flight number, the aircraft's registration."""

    carrier: str
    number: int
    tail: str


class Closed(Component):
    """An airport from which nothing departs since a tick: the one entity that sets a fork apart."""

    airport: str
    since_tick: int
