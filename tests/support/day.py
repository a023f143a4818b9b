"""A short history of two archetypes, and the rows it must leave in the tables."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tests.support.place import Place
from tests.support.worlds import Flight, Position, Published, position

BOTH = (Flight, Position)
ONLY = (Position,)


def a_day(place: Place, name: str = "w", ticks: int = 5, **options: Any) -> Published:
    """A world with rows of two archetypes; tick 2 changes nothing."""
    world = place.world(name, **options)
    for tick in range(ticks):
        flying = [
            position(e, e + tick / 10, flight__carrier="UA", flight__number=e) for e in (3, 1, 2)
        ]
        changes = {BOTH: flying, ONLY: [position(9, float(tick))]}
        world.publish({} if tick == 2 else changes)
    return world


def expected(name: str, entities: tuple[int, ...], ticks: int = 5) -> Counter:
    return Counter((name, tick, e) for tick in range(ticks) if tick != 2 for e in entities)
