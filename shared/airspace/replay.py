"""The day as commands: every flight is spawned when it departs and despawned when it arrives."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from airspace.flights import Flight
from perdure.kernel import limits

Command: TypeAlias = dict[str, Any]
"""One command in the JSON shape of ``POST /v1/worlds/{w}/commands``."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Commands that are admitted together; the id depends on nothing but the place in the day."""

    id: str
    commands: tuple[Command, ...]


def spawn_batches(flights: Iterable[Flight]) -> list[Batch]:
    """Return the departures of the day, in order of time."""
    return numbered("day-spawn", split([spawn(flight) for flight in by_departure(flights)]))


def despawn_batches(flights: Iterable[Flight], entity_ids: Sequence[int]) -> list[Batch]:
    """Return the arrivals of the day, in order of time.

    ``entity_ids`` are those of the receipts of :func:`spawn_batches`, in their order.
    """
    pairs = zip(by_departure(flights), entity_ids, strict=True)
    arrivals = sorted(pairs, key=lambda pair: pair[0].arrival_tick)
    return numbered("day-despawn", split([despawn(flight, id) for flight, id in arrivals]))


def split(
    commands: Sequence[Command],
    *,
    groups_max: int = limits.BATCH_GROUPS_MAX,
    commands_max: int = limits.BATCH_COMMANDS_MAX,
) -> list[tuple[Command, ...]]:
    """Cut commands, in their order, into as few runs as the limits allow.

    A (tick, priority) group counts once in a run, a command's own ``command_id`` once more. Commands
    that are sorted by tick give the fewest runs.
    """
    return list(runs(commands, groups_max=groups_max, commands_max=commands_max))


def runs(
    commands: Iterable[Command], *, groups_max: int, commands_max: int
) -> Iterator[tuple[Command, ...]]:
    """Yield the runs of :func:`split`."""
    run: list[Command] = []
    taken: set[object] = set()
    for command in commands:
        wanted = marks(command)
        if run and (len(taken | wanted) > groups_max or len(run) == commands_max):
            yield tuple(run)
            run, taken = [], set()
        run.append(command)
        taken |= wanted
    if run:
        yield tuple(run)


def marks(command: Mapping[str, Any]) -> set[object]:
    """Return what a command adds to the groups of its batch."""
    group = ("group", command.get("tick"), command.get("priority", 0))
    own = command.get("command_id")
    return {group} if own is None else {group, ("id", own)}


def numbered(prefix: str, cut: Iterable[tuple[Command, ...]]) -> list[Batch]:
    """Name batches by their place: the same day gives the same names in every run."""
    return [Batch(f"{prefix}-{place:03}", run) for place, run in enumerate(cut, start=1)]


def by_departure(flights: Iterable[Flight]) -> list[Flight]:
    """Sort by departure; flights of one minute keep their order."""
    return sorted(flights, key=lambda flight: flight.departure_tick)


def spawn(flight: Flight) -> Command:
    """Return the command that puts an aircraft over its origin when it departs."""
    origin, destination = flight.origin, flight.destination
    return {
        "operation": "spawn",
        "components": {
            "Position": {"latitude": origin.latitude, "longitude": origin.longitude},
            "Route": {
                "origin": origin.code,
                "destination": destination.code,
                "origin_latitude": origin.latitude,
                "origin_longitude": origin.longitude,
                "destination_latitude": destination.latitude,
                "destination_longitude": destination.longitude,
                "departure_tick": flight.departure_tick,
                "arrival_tick": flight.arrival_tick,
            },
            "Flight": {
                "carrier": flight.carrier,
                "number": flight.number,
                "tail": flight.tail,
            },
        },
        "tick": flight.departure_tick,
    }


def despawn(flight: Flight, entity_id: int) -> Command:
    """Return the command that takes an aircraft away when it arrives."""
    return {"operation": "despawn", "entity_id": entity_id, "tick": flight.arrival_tick}
