"""Where the time of a tick goes: ``python -m tests.bench.tick_parts`` prints it part by part."""

from __future__ import annotations

import argparse
import asyncio
import functools
import os
import statistics
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rich.console import Console
from tests.bench import floors
from tests.bench.bench import moving_app, opened
from tests.bench.run import PREFIX, ROOT
from tests.bench.ticking import _Moving

from perdure.authority import bodies, sqlite
from perdure.kernel.drain import DrainDue
from perdure.kernel.publish import Publish
from perdure.lake import segment
from perdure.lake.objects import LocalObjects
from perdure.runtime import compute, tick

WIDTH = 100

PARTS: tuple[tuple[Any, str, str], ...] = (
    (sqlite, "_view", "drain: read head, pages and log"),
    (DrainDue, "decide", "drain: decide"),
    (compute, "accepted", "compute: check what a processor returned"),
    (tick, "changes", "compare with the state before"),
    (segment, "inlined", "see whether rows fit the manifest"),
    (segment, "segment_bytes", "spell the segment"),
    (segment, "_sha256", "digest the segment"),
    (LocalObjects, "_put", "put the segment, with its syncs"),
    (os, "fsync", "  of that, sync of file and directory"),
    (tick, "settlement", "say what was settled"),
    (Publish, "decide", "publish: decide"),
    (bodies, "packed", "publish: pack bodies"),
    (sqlite, "_apply_all", "publish: transaction, with its sync"),
)


class Parts:
    """Wall and CPU time of parts, of whatever thread runs them, and how often they ran."""

    def __init__(self) -> None:
        self.wall: defaultdict[str, float] = defaultdict(float)
        self.cpu: defaultdict[str, float] = defaultdict(float)
        self.calls = Counter[str]()
        self.hops = 0
        self._loop_thread = threading.get_ident()

    def forget(self) -> None:
        """Begin anew."""
        for held in (self.wall, self.cpu, self.calls):
            held.clear()
        self.hops = 0

    def watch(self, holder: Any, name: str, part: str) -> None:
        """Time a function from now on."""
        inner = getattr(holder, name)

        @functools.wraps(inner)
        def timed(*args: Any, **named: Any) -> Any:
            wall, cpu = time.perf_counter(), time.thread_time()
            try:
                return inner(*args, **named)
            finally:
                self.wall[part] += time.perf_counter() - wall
                self.cpu[part] += time.thread_time() - cpu
                self.calls[part] += 1
                inside = part.startswith(" ")
                self.hops += threading.get_ident() != self._loop_thread and not inside

        setattr(holder, name, timed)


async def measured(root: Path, entities: int, ticks: int) -> str:
    """Tick a world whose every entity moves, and say where the time went."""
    parts = Parts()
    with TemporaryDirectory(dir=root, prefix=PREFIX) as made:
        directory = Path(made)
        async with opened(directory, moving_app()) as storage:
            bare = floors.BareTick(entities, directory / "floor.arrow")
            moving = await _Moving.of(storage, entities)
            for watched in PARTS:
                parts.watch(*watched)
            found: dict[str, list[tuple[float, float]]] = {"floor": [], "tick": []}
            for _ in range(3):
                bare()
                await moving.whole()
            parts.forget()
            for _ in range(ticks):
                found["tick"].append(await _timed(moving.whole))
            calls, hops, told = dict(parts.calls), parts.hops, _table(parts, ticks)
            for _ in range(ticks):
                found["floor"].append(await _timed(_awaitable(bare)))
    syncs = (calls["  of that, sync of file and directory"] + calls[PARTS[-1][2]]) / ticks
    walls = {name: statistics.median(wall for wall, _ in each) for name, each in found.items()}
    cpus = {name: statistics.median(cpu for _, cpu in each) for name, each in found.items()}
    return "\n".join(
        [
            f"{entities:,} entities, {ticks} ticks; medians, then means by part, in ms",
            f"{'':44}{'wall':>8}{'CPU':>8}",
            *(f"{name:44}{walls[name]:8.3f}{cpus[name]:8.3f}" for name in ("floor", "tick")),
            f"{'ratio':44}{walls['tick'] / walls['floor']:8.2f}{cpus['tick'] / cpus['floor']:8.2f}",
            *told,
            f"{syncs:g} syncs and {hops / ticks:g} hops to other threads a tick",
        ]
    )


def _table(parts: Parts, ticks: int) -> list[str]:
    return [
        f"{part:44}{parts.wall[part] / ticks * 1e3:8.3f}{parts.cpu[part] / ticks * 1e3:8.3f}"
        for _, _, part in PARTS
    ]


async def _timed(work: Callable[[], Any]) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    await work()
    return (time.perf_counter() - wall) * 1e3, (time.process_time() - cpu) * 1e3


def _awaitable(work: Callable[[], None]) -> Callable[[], Any]:
    async def done() -> None:
        work()

    return done


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.tick_parts", description=__doc__)
    parser.add_argument("--entities", type=int, default=1_000)
    parser.add_argument("--ticks", type=int, default=50)
    parser.add_argument("--root", type=Path, default=ROOT, metavar="DIR")
    options = parser.parse_args()
    told = asyncio.run(measured(options.root, options.entities, options.ticks))
    Console(width=WIDTH, highlight=False).print(told, markup=False)


if __name__ == "__main__":
    main()
