"""The month in a process of its own, so that its memory is its own: replayed, then looked at cold."""

from __future__ import annotations

import asyncio
import csv
import gzip
import json
import os
import resource
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from tests.bench import floors, month_facts
from tests.bench.figures import Watch

import perdure
from airspace import replay
from airspace.app import app
from airspace.flights import Flight, judge, known_airports
from perdure.kernel.operations import parsed_commands
from perdure.runtime.storage import Storage, World

WORLD = "january-2013"
DAY = month_facts.MINUTES_OF_A_DAY
HOUR = 60
ROUTE = ("origin_latitude", "origin_longitude", "destination_latitude", "destination_longitude")


@dataclass
class Day:
    """What one day of the month took."""

    commands: int = 0
    rows: int = 0
    admit_seconds: float = 0.0
    tick_seconds: float = 0.0
    land_seconds: float = 0.0
    landed_rows: int = 0
    floor_seconds: float = 0.0
    hours_ms: tuple[float, ...] = ()
    """A tick's milliseconds, on average, hour by hour."""
    hours_cpu_ms: tuple[float, ...] = ()
    """The same of this process's CPU: other processes make ticks longer, and this hardly."""
    memory_mb: float = 0.0
    """The most this process has had in memory until then."""


def main() -> None:
    """Replay, or look: ``python -m tests.bench.month_run replay|look DIRECTORY DAYS``."""
    what, root, days = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    work = {"replay": replayed, "look": looked}[what]
    _tell(done=asyncio.run(work(root, days)))


async def replayed(root: Path, days: int) -> dict[str, Any]:
    """Replay hour by hour: admit what begins and ends in it, tick through it; land every day."""
    month = flights(days)
    done = []
    async with perdure.open(f"file://{root}", app=app) as storage:
        world = await storage.create_world("January 2013", world_id=WORLD)
        hours = _Hours(month)
        for number in range(days):
            _tell(say=f"day {number + 1} of {days}")
            day = await _day(storage, world, hours, number)
            day.floor_seconds = _bare(month, number, root / "floor.arrow")
            day.memory_mb = _memory_mb()
            done.append(asdict(day))
    return {"days": done, **_stored(root)}


def _stored(root: Path) -> dict[str, int]:
    return {
        "objects": len(list(root.rglob("*.arrow"))),
        "objects_bytes": _bytes(root, "*.arrow"),
        "authority_bytes": _bytes(root, ".perdure-catalog-*"),
        "parquet_files": len(list(root.rglob("*.parquet"))),
        "parquet_bytes": _bytes(root, "*.parquet"),
    }


def flights(days: int) -> list[Flight]:
    """Return the flights of the first days, as the day's replay judges them, in minutes of the month."""
    airports = known_airports()
    found = []
    with gzip.open(month_facts.FLIGHTS, "rt", newline="", encoding="utf-8") as file:
        for line, row in enumerate(csv.DictReader(file), start=2):
            flight = judge(line, row, airports)
            if int(row["day"]) <= days and isinstance(flight, Flight):
                begin = (int(row["day"]) - 1) * DAY
                found.append(
                    replace(
                        flight,
                        departure_tick=begin + flight.departure_tick,
                        arrival_tick=begin + flight.arrival_tick,
                    )
                )
    return found


class _Hours:
    """Commands by the hour. Who ends is known by the id that its beginning was given."""

    def __init__(self, month: Sequence[Flight]) -> None:
        self._begin: dict[int, list[Flight]] = {}
        for flight in replay.by_departure(month):
            self._begin.setdefault(flight.departure_tick // HOUR, []).append(flight)
        self._end: dict[int, list[replay.Command]] = {}

    async def admit(self, world: World, hour: int) -> int:
        """Admit what departs in an hour, then what arrives, and return how many commands."""
        beginning = self._begin.get(hour, [])
        spawns = [replay.spawn(flight) for flight in beginning]
        ids = await _submitted(world, f"{hour:03}-spawn", spawns)
        for flight, entity in zip(beginning, ids, strict=True):
            ends = self._end.setdefault(flight.arrival_tick // HOUR, [])
            ends.append(replay.despawn(flight, entity))
        ending = sorted(self._end.pop(hour, []), key=lambda command: command["tick"])
        await _submitted(world, f"{hour:03}-despawn", ending)
        return len(spawns) + len(ending)


async def _submitted(world: World, batch_id: str, commands: list[replay.Command]) -> list[Any]:
    if not commands:
        return []
    submitted = await world.submit(parsed_commands(commands), batch_id=batch_id)
    return [receipt.entity_id for receipt in submitted.receipts]


async def _day(storage: Storage, world: World, hours: _Hours, number: int) -> Day:
    day = Day()
    means, means_cpu = [], []
    for hour in range(number * DAY // HOUR, (number + 1) * DAY // HOUR):
        with Watch() as admitting:
            day.commands += await hours.admit(world, hour)
        cpu = time.process_time()
        with Watch() as ticking:
            ran = await world.run(to_tick=(hour + 1) * HOUR - 1)
        means_cpu.append((time.process_time() - cpu) * 1e3 / HOUR)
        assert (ran.ticks, ran.rejected, ran.dead) == (HOUR, 0, 0), ran
        day.admit_seconds += admitting.seconds
        day.tick_seconds += ticking.seconds
        day.rows += ran.rows
        means.append(ticking.ms / HOUR)
    with Watch() as landing:
        landed = await storage.land(WORLD)
    day.land_seconds, day.landed_rows = landing.seconds, landed.rows
    day.hours_ms, day.hours_cpu_ms = tuple(means), tuple(means_cpu)
    return day


def _bare(month: Sequence[Flight], number: int, path: Path) -> float:
    """Move the flights of every minute of a day, and write each as an Arrow file; return seconds."""
    near = [
        flight
        for flight in month
        if flight.departure_tick < (number + 1) * DAY and flight.arrival_tick > number * DAY
    ]
    begin = np.array([flight.departure_tick for flight in near])
    until = np.array([flight.arrival_tick for flight in near])
    table = pa.table(_columns(near))
    route = np.array([table[f"route__{name}"].to_numpy() for name in ROUTE])
    with Watch() as watch:
        for tick in range(number * DAY, (number + 1) * DAY):
            flies = (begin <= tick) & (tick < until)
            if flies.any():
                part = (tick - begin[flies]) / (until - begin)[flies]
                places = floors.between(route[:2, flies], route[2:, flies], part)
                floors.put(_at(table.filter(pa.array(flies)), places), path)
    path.unlink(missing_ok=True)
    return watch.seconds


def _at(rows: pa.Table, places: tuple[floors.Floats, floors.Floats]) -> pa.Table:
    for axis, values in zip(("latitude", "longitude"), places, strict=True):
        index = rows.schema.get_field_index(f"position__{axis}")
        rows = rows.set_column(index, f"position__{axis}", pa.array(values))
    return rows


def _columns(near: Sequence[Flight]) -> dict[str, Any]:
    columns: dict[str, Any] = {"entity_id": list(range(len(near)))}
    routes = [replay.spawn(flight)["components"] for flight in near]
    for component in ("Position", "Route", "Flight"):
        for name in routes[0][component]:
            columns[f"{component.lower()}__{name}"] = [each[component][name] for each in routes]
    return columns


async def looked(root: Path, days: int) -> dict[str, Any]:
    """Resume, query and verify with everything opened anew; compare all rows with the file."""
    facts = month_facts.facts(days)
    middle = facts.ticks // 2 + HOUR * 9
    with Watch() as resuming:
        async with _opened(root) as (storage, _):
            await storage.resume(WORLD)
    with Watch() as querying:
        async with _opened(root) as (_, world):
            rows = await world.query("Position", "Route", "Flight", ticks=middle)
    assert _named(rows) == facts.in_the_air(middle), (
        f"flights at tick {middle} are those of the file"
    )
    _tell(say="every row against the file")
    async with _opened(root) as (_, world):
        with Watch() as comparing:
            counted = await _compared(world, facts)
        _tell(say="verifying the last day")
        with Watch() as verifying:
            verified = await world.verify(from_tick=facts.ticks - DAY)
        assert verified.findings == (), verified.findings
    return {
        **counted,
        "flights": len(facts.spans),
        "lines": facts.lines,
        "still_flying": len(facts.spans) - facts.landed,
        "middle": middle,
        "middle_rows": rows.num_rows,
        "resume_ms": resuming.ms,
        "query_ms": querying.ms,
        "compare_seconds": comparing.seconds,
        "verify_seconds": verifying.seconds,
        "verified_ticks": verified.checked_ticks,
    }


@asynccontextmanager
async def _opened(root: Path) -> AsyncIterator[tuple[Storage, World]]:
    async with perdure.open(f"file://{root}", app=app) as storage:
        yield storage, await storage.world(WORLD)


async def _compared(world: World, facts: month_facts.Facts) -> dict[str, Any]:
    """Compare, at every tick, how many fly and how many rows there are with what the file says."""
    airborne, expected = facts.airborne(), facts.rows()
    found, active = Counter[int](), Counter[int]()
    entities: set[int] = set()
    for number in range(facts.days):
        rows = await world.query("Position", ticks=range(number * DAY, (number + 1) * DAY))
        found.update(dict(_by_tick(rows)))
        active.update(dict(_by_tick(rows.filter(rows["is_active"]))))
        entities.update(pc.unique(rows["entity_id"]).to_pylist())
    assert [found[tick] for tick in range(facts.ticks)] == expected, "rows of every tick"
    assert [active[tick] for tick in range(facts.ticks)] == airborne, "flights at every tick"
    assert len(entities) == len(facts.spans), "every flight that flew, once"
    return {"rows": sum(found.values()), "peak": max(airborne)}


def _by_tick(rows: pa.Table) -> Iterator[tuple[int, int]]:
    counts = pc.value_counts(rows["tick"])
    return zip(counts.field("values").to_pylist(), counts.field("counts").to_pylist(), strict=True)


def _named(rows: pa.Table) -> Counter[month_facts.Label]:
    names = ("flight__carrier", "flight__number", "flight__tail")
    columns = [*names, "route__origin", "route__destination"]
    return Counter(zip(*(rows[name].to_pylist() for name in columns), strict=True))


def _bytes(root: Path, pattern: str) -> int:
    return sum(file.stat().st_size for file in root.rglob(pattern))


def _memory_mb() -> float:
    unit = 1 if sys.platform == "darwin" else 1_024  # bytes there, kilobytes here
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


def _tell(**line: Any) -> None:
    os.write(sys.stdout.fileno(), json.dumps(line).encode() + b"\n")


if __name__ == "__main__":
    main()
