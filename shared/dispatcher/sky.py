"""The sky at noon: every flight in the air at 12:00 of the real day, and a closed airport."""

from __future__ import annotations

from typing import Final

from airspace.components import Closed, Position, Route
from airspace.components import Flight as Flown
from airspace.flights import Flight, real_day
from dispatcher.agent import SKY
from perdure import Spawn
from perdure.runtime.storage import Storage, World

NOON: Final = 720
CLOSED: Final = "ORD"


def airborne() -> list[Flight]:
    """Return the flights in the air at noon."""
    return [each for each in real_day().flights if each.departure_tick <= NOON < each.arrival_tick]


async def sky_at_noon(storage: Storage) -> World:
    """Make the world whose tick 0 is noon, with an airport that has just closed."""
    world = await storage.create_world(SKY, world_id=SKY)
    spawns = [_spawn(flight) for flight in airborne()]
    await world.submit(
        [*spawns, Spawn(components={"Closed": Closed(airport=CLOSED, since_tick=0)})],
        batch_id="noon",
    )
    await world.run(to_tick=0)
    return world


def _spawn(flight: Flight) -> Spawn:
    begin, end = flight.origin, flight.destination
    return Spawn(
        components={
            "Position": Position(latitude=begin.latitude, longitude=begin.longitude),
            "Flight": Flown(carrier=flight.carrier, number=flight.number, tail=flight.tail),
            "Route": Route(
                origin=begin.code,
                destination=end.code,
                origin_latitude=begin.latitude,
                origin_longitude=begin.longitude,
                destination_latitude=end.latitude,
                destination_longitude=end.longitude,
                departure_tick=flight.departure_tick - NOON,
                arrival_tick=flight.arrival_tick - NOON,
            ),
        }
    )
