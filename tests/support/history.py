"""A history in which entities move, leave, and change their archetype, and its states."""

from __future__ import annotations

from tests.support.place import Place
from tests.support.worlds import Flight, Position, Published, gone, position

BOTH = (Flight, Position)
ONLY = (Position,)


def history(place: Place, *, landed_after: int | None = None, inline: bool = True) -> Published:
    """Six ticks: 1 moves every tick, 2 once, 3 leaves, 4 changes its archetype and back."""
    world = place.world(inline=inline)
    ua = {"flight__carrier": "UA", "flight__number": 7}
    ticks = [
        {ONLY: [position(2, 2.0), position(1, 1.0), position(3, 3.0), position(4, 4.0)]},
        {ONLY: [position(1, 1.1)]},
        {ONLY: [position(1, 1.2), gone(3), gone(4)], BOTH: [position(4, 4.2, **ua)]},
        {ONLY: [position(1, 1.3)]},
        {ONLY: [position(1, 1.4), position(4, 4.4)], BOTH: [gone(4)]},
        {ONLY: [position(1, 1.5)]},
    ]
    for number, changes in enumerate(ticks):
        world.publish(changes)
        if number == landed_after:
            place.land()
    return world


STATES = {
    0: [(1, 1.0), (2, 2.0), (3, 3.0), (4, 4.0)],
    1: [(1, 1.1), (2, 2.0), (3, 3.0), (4, 4.0)],
    2: [(1, 1.2), (2, 2.0), (4, 4.2)],
    3: [(1, 1.3), (2, 2.0), (4, 4.2)],
    4: [(1, 1.4), (2, 2.0), (4, 4.4)],
    5: [(1, 1.5), (2, 2.0), (4, 4.4)],
}
