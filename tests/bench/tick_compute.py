"""Measure what a tick costs in memory: settling commands, processors, changed rows, one segment.

Run: ``python tests/bench/tick_compute.py [entities …]`` prints one JSON object. Times are
medians in milliseconds. ``floor`` is bare numpy and Arrow doing the same on columns it holds:
compute, aligned comparison, one raw Arrow file with fsync.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import resource
import statistics
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "shared"), str(ROOT)]

import numpy as np  # noqa: E402
import pyarrow as pa  # noqa: E402

from perdure.kernel.batch import StoredCommand  # noqa: E402
from perdure.kernel.component import Component  # noqa: E402
from perdure.lake.archetype import Archetype, Shape  # noqa: E402
from perdure.lake.changes import changes  # noqa: E402
from perdure.lake.staging import Staging  # noqa: E402
from perdure.lake.state import EMPTY, WorldState  # noqa: E402
from perdure.runtime.app import App  # noqa: E402
from perdure.runtime.compute import TickFacts, compute  # noqa: E402

COMMANDS = 10_000
SIZES = (1_000, 10_000, 100_000, 1_000_000)


class Position(Component):
    x: float
    y: float


class Velocity(Component):
    dx: float
    dy: float


app = App("bench")
app.component(Position)
app.component(Velocity)
TYPES = {each.__name__: each.component.fingerprint for each in (Position, Velocity)}


@app.processor(Position, Velocity)
def drift(rows: pa.Table, tick: object) -> pa.Table:
    for axis in ("x", "y"):
        name = f"position__{axis}"
        moved = rows[name].to_numpy() + rows[f"velocity__d{axis}"].to_numpy()
        rows = rows.set_column(rows.schema.get_field_index(name), name, pa.array(moved))
    return rows


def median_ms(work, rounds=15):
    times = []
    for _ in range(rounds):
        gc.collect()
        started = time.perf_counter()
        work()
        times.append((time.perf_counter() - started) * 1e3)
    return round(statistics.median(times), 3)


def command(sequence, operation, entity_id=None):
    return StoredCommand(
        command_id=f"b.{sequence}",
        sequence=sequence,
        entity_id=entity_id,
        operation=operation,
        types=TYPES,
    )


def settled(state, commands):
    staging = Staging(state, app.registry)
    result = staging.apply(commands)
    assert len(result.applied) == len(commands)
    return staging.state()


def settling():
    spawns, updates = [], []
    for n in range(1, COMMANDS + 1):
        position, velocity = {"x": n * 0.5, "y": n * 0.25}, {"dx": 1.5, "dy": n * 0.1}
        born = {"Position": position, "Velocity": velocity}
        spawns.append(command(n, {"operation": "spawn", "components": born}, n))
        moved = {"Position": {"x": n + 0.5, "y": 0.5}}
        updates.append(command(n, {"operation": "update", "entity_id": n, "components": moved}))
    state = settled(EMPTY, spawns)
    figures = {}
    for name, before, commands in (("spawns", EMPTY, spawns), ("updates", state, updates)):
        cost = median_ms(lambda before=before, commands=commands: settled(before, commands))
        figures[name] = {"ms": cost, "commands_a_second": round(COMMANDS / cost * 1e3)}
    return figures


def world(count):
    random = np.random.default_rng(1)
    shape = Shape((Position.component, Velocity.component))
    arrays = [pa.array(np.arange(1, count + 1))]
    arrays += [pa.array(random.normal(size=count)) for _ in range(4)]
    return WorldState.of([Archetype.of(shape, pa.table(arrays, schema=shape.schema))])


def put(table, path):
    with Path(path).open("wb") as file:
        with pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)
        file.flush()
        os.fsync(file.fileno())


def floor(state, path):
    (archetype,) = state.ordered
    columns = {name: archetype.rows[name].to_numpy() for name in archetype.rows.schema.names}

    def tick():
        x = columns["position__x"] + columns["velocity__dx"]
        y = columns["position__y"] + columns["velocity__dy"]
        mask = x != columns["position__x"]
        mask |= y != columns["position__y"]
        for name in ("velocity__dx", "velocity__dy"):
            mask |= columns[name] != columns[name]
        table = pa.table({**columns, "position__x": x, "position__y": y})
        put(table if mask.all() else table.filter(pa.array(mask)), path)

    return tick


def whole_tick(state, path):
    facts = TickFacts("w", "r", 1, 0)

    def tick():
        after = asyncio.run(compute(state, app.processors(), app.registry, facts)).state
        for each in changes(state, after).tables:
            put(each.rows, path)

    return tick


def in_memory(state):
    facts = TickFacts("w", "r", 1, 0)

    def tick():
        after = asyncio.run(compute(state, app.processors(), app.registry, facts)).state
        changes(state, after)

    return tick


def ticking(count):
    state = world(count)
    spawn = {"Position": {"x": 0.5, "y": 0.5}, "Velocity": {"dx": 1.5, "dy": 1.5}}
    born = command(1, {"operation": "spawn", "components": spawn}, count + 1)
    ended = command(2, {"operation": "despawn", "entity_id": count // 2})
    changed = settled(state, [born, ended])
    with tempfile.TemporaryDirectory(dir=ROOT) as directory:
        path = Path(directory) / "segment.arrow"
        bare = median_ms(floor(state, path))
        whole = median_ms(whole_tick(state, path))
    return {
        "floor_ms": bare,
        "tick_ms": whole,
        "ratio": round(whole / bare, 2),
        "in_memory_ms": median_ms(in_memory(state)),
        "one_spawn_and_one_despawn_ms": median_ms(lambda: settled(state, [born, ended])),
        "their_changes_ms": median_ms(lambda: changes(state, changed)),
    }


if __name__ == "__main__":
    sizes = [int(each) for each in sys.argv[1:]] or SIZES
    figures = {"settle_10000": settling(), "tick": {str(size): ticking(size) for size in sizes}}
    figures["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(json.dumps(figures, indent=2))  # noqa: T201 - the report is the point
