"""Two evenings compared: what two worlds of one morning have in common, asked of their rows alone."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airspace.components import Closed, Flight, Position, Route
from airspace.flights import TICKS
from airspace.picture import Sightings
from airspace.twodays import TwoDays
from perdure.runtime.storage import World

HOUR: Final = 60

WHO: Final = (
    "route__origin", "route__destination", "route__departure_tick",
    "flight__carrier", "flight__number", "flight__tail",
)  # fmt: skip
"""The columns of :class:`Who`, in its order."""

PLACED: Final = ("entity_id", "tick", "is_active", "position__latitude", "position__longitude")
"""What a row says of a moment."""


class Who(NamedTuple):
    """What tells one flight of the day from all others, in both worlds alike."""

    origin: str
    destination: str
    departure_tick: int
    carrier: str
    number: int
    tail: str


@dataclass(frozen=True, slots=True)
class Day:
    """The rows that one world's ticks wrote: who was where, minute by minute."""

    rows: pa.Table
    """Shape: PLACED and WHO, one row per aircraft and tick, by (tick, entity); inactive on arrival."""

    def until(self, tick: int) -> pa.Table:
        """Return the rows up to a tick, that one included."""
        return self.rows.filter(pc.field("tick") <= tick)

    def only(self, flights: AbstractSet[Who]) -> Day:
        """Return the rows of some flights."""
        return self._joined(flights, "left semi")

    def without(self, flights: AbstractSet[Who]) -> Day:
        """Return the rows of all flights but some."""
        return self._joined(flights, "left anti")

    def _joined(self, flights: AbstractSet[Who], kind: str) -> Day:
        schema = pa.schema([self.rows.schema.field(name) for name in WHO])
        named = [dict(zip(WHO, flight, strict=True)) for flight in sorted(flights)]
        wanted = pa.Table.from_pylist(named, schema=schema)
        return Day(self.rows.join(wanted, keys=list(WHO), join_type=kind))

    def tracks(self) -> pa.Table:
        """Return who was where when, by flight and tick.

        Entity ids are left out: after a fork, each world counts on by itself.
        """
        named = self.rows.select([*WHO, *PLACED[1:]])
        return named.sort_by([(name, "ascending") for name in (*WHO, "tick")])

    def flights(self) -> frozenset[Who]:
        """Return the flights that departed."""
        seen = self.rows.group_by(list(WHO)).aggregate([])
        columns = (seen[name].to_pylist() for name in WHO)
        return frozenset(Who(*values) for values in zip(*columns, strict=True))

    def airborne(self) -> list[int]:
        """Count the aircraft in the air at each tick of the day."""
        ticks = self.rows.filter(pc.field("is_active"))["tick"].to_numpy()
        return [int(count) for count in np.bincount(ticks, minlength=TICKS)[:TICKS]]

    def arrivals_by_hour(self) -> list[int]:
        """Count the arrivals of each hour since 00:00."""
        ticks = self.rows.filter(~pc.field("is_active"))["tick"].to_numpy()
        hours = -(-TICKS // HOUR)
        return [int(count) for count in np.bincount(ticks // HOUR, minlength=hours)]

    def sightings(self, since_tick: int) -> Sightings:
        """Return where aircraft were after a tick, as the pictures take it."""
        rows = self.rows.filter(pc.field("is_active") & (pc.field("tick") > since_tick))
        return Sightings(
            entity_ids=rows["entity_id"].to_numpy(),
            ticks=rows["tick"].to_numpy(),
            latitudes=rows["position__latitude"].to_numpy(),
            longitudes=rows["position__longitude"].to_numpy(),
        )


@dataclass(frozen=True, slots=True)
class Comparison:
    """What two days have in common, and what sets them apart."""

    source: Day
    fork: Day
    fork_tick: int
    rows_before: int
    """Rows up to the fork, found in both worlds."""

    is_same_before: bool
    """Whether these are the same in every value, row by row."""

    missing: frozenset[Who]
    """Flights that departed in the source alone."""

    extra: frozenset[Who]
    """Flights that departed in the fork alone."""

    is_same_otherwise: bool
    """Whether all other flights were at the same places at the same ticks."""

    signs: tuple[list[dict[str, object]], list[dict[str, object]]]
    """The Closed entities that each of the worlds holds, source first."""


async def day_of(world: World, last_tick: int) -> Day:
    """Read the whole day of a world, in one query."""
    rows = await world.query(Position, Route, Flight, ticks=range(last_tick + 1))
    return Day(rows.select([*PLACED, *WHO]))


async def compared(two: TwoDays, *, last_tick: int = TICKS - 1) -> Comparison:
    """Compare both days by queries of the two worlds, and by nothing else."""
    source, fork = await day_of(two.source, last_tick), await day_of(two.fork, last_tick)
    fork_tick = two.closing.after_tick
    before = source.until(fork_tick), fork.until(fork_tick)
    departed = source.flights(), fork.flights()
    missing, extra = departed[0] - departed[1], departed[1] - departed[0]
    signs = [(await world.query(Closed)).to_pylist() for world in (two.source, two.fork)]
    return Comparison(
        source=source,
        fork=fork,
        fork_tick=fork_tick,
        rows_before=before[1].num_rows,
        is_same_before=before[0].equals(before[1]),
        missing=missing,
        extra=extra,
        is_same_otherwise=source.without(missing).tracks().equals(fork.without(extra).tracks()),
        signs=(signs[0], signs[1]),
    )
