"""The month of January 2013: 44,640 ticks of one minute through the airspace, and a look at them."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from tests.bench.bench import Bench
from tests.bench.figures import Budget, Figure, Sample, counted

ROOT = Path(__file__).parents[2]
FLAT = Budget(1.2)
DAYTIME = slice(8, 20)
"""Hours of a day in which about as many aircraft fly as in the same hours of any other day."""

LINE_BYTES_MAX = 1 << 20


async def measure(bench: Bench) -> list[Figure]:
    """Replay the month in one process and look at it in another."""
    days = bench.scale.month_days
    with bench.directory() as directory:
        run = await _child(bench, "replay", directory, days)
        look = await _child(bench, "look", directory, days)
    bench.notes.append(
        f"{days} days of the month: {look['flights']:,} of {look['lines']:,} lines of the file are"
        f" flights; {look['peak']:,} at most in the air at once, {look['still_flying']:,} still at"
        f" the end. At each of the {days * 1_440:,} ticks, flights in"
        " the air and rows are as many as the file says, counted apart; the flights at tick"
        f" {look['middle']:,} are those of the file by name; `verify` of the last"
        f" {look['verified_ticks']:,} ticks found nothing."
    )
    return [*_pace(run, days), *_held(run, look), *_cold(look)]


def _pace(run: dict[str, Any], days: int) -> list[Figure]:
    held = run["days"]

    def rate(what: str, seconds: str) -> Sample:
        return Sample(tuple(day[what] / day[seconds] for day in held))

    ticks = Sample(tuple(1_440 / day["tick_seconds"] for day in held))
    bare = Sample(tuple(1_440 / day["floor_seconds"] for day in held))
    return [
        Figure("ticks, day by day", "ticks/s", ticks, bare, "numpy compute, one Arrow file a tick"),
        Figure("commands in batches by the hour", "commands/s", rate("commands", "admit_seconds")),
        Figure("landing once a day", "rows/s", rate("landed_rows", "land_seconds")),
        _daytime(held, "hours_ms", f"a tick from 08:00 to 20:00, day {days}", FLAT),
        _daytime(held, "hours_cpu_ms", f"CPU of a tick from 08:00 to 20:00, day {days}"),
        Figure(
            f"rows of a tick, day {days}",
            "rows",
            counted(held[-1]["rows"] / 1_440),
            counted(held[0]["rows"] / 1_440),
            "the same on day 1",
        ),
    ]


def _daytime(held: list[Any], what: str, name: str, budget: Budget | None = None) -> Figure:
    """Return a figure of the last day beside the first."""
    last, first = (Sample(tuple(held[at][what][DAYTIME])) for at in (-1, 0))
    return Figure(name, "ms", last, first, "the same on day 1, hour by hour", budget)


def _held(run: dict[str, Any], look: dict[str, Any]) -> list[Figure]:
    held = run["days"]
    total = sum(day["admit_seconds"] + day["tick_seconds"] + day["land_seconds"] for day in held)
    memory = [counted(held[at]["memory_mb"]) for at in (-1, 0)]
    rows = look["rows"]
    return [
        Figure("the whole replay", "s", counted(total)),
        Figure("commands", "commands", counted(sum(day["commands"] for day in held))),
        Figure("rows", "rows", counted(rows)),
        Figure("most memory of the process", "MB", memory[0], memory[1], "after day 1"),
        Figure("segments and checkpoints", "files", counted(run["objects"])),
        Figure("segments and checkpoints, a row", "bytes", counted(run["objects_bytes"] / rows)),
        Figure("the authority's file", "MB", counted(run["authority_bytes"] / 1e6)),
        Figure("Iceberg data", "files", counted(run["parquet_files"])),
        Figure("Iceberg data, a row", "bytes", counted(run["parquet_bytes"] / rows)),
    ]


def _cold(look: dict[str, Any]) -> list[Figure]:
    verified = look["verified_ticks"] / look["verify_seconds"]
    return [
        Figure("resume at the end, all opened anew", "ms", counted(look["resume_ms"])),
        Figure(
            f"query of the {look['middle_rows']} flights at a tick in the middle, all opened anew",
            "ms",
            counted(look["query_ms"]),
        ),
        Figure(
            "query of all rows, a day at a time",
            "rows/s",
            counted(look["rows"] / look["compare_seconds"]),
        ),
        Figure("verify", "ticks/s", counted(verified)),
    ]


async def _child(bench: Bench, what: str, directory: Path, days: int) -> dict[str, Any]:
    """Run one part in a process of its own. Raises RuntimeError if that fails."""
    paths = os.pathsep.join(str(ROOT / each) for each in ("shared", "emulator", "."))
    arguments = ["-m", "tests.bench.month_run", what, str(directory), str(days)]
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *arguments,
        env={**os.environ, "PYTHONPATH": paths},
        stdout=asyncio.subprocess.PIPE,
        limit=LINE_BYTES_MAX,
    )
    assert process.stdout is not None
    try:
        async for line in process.stdout:
            told = json.loads(line)
            if "done" in told:
                done: dict[str, Any] = told["done"]
                await process.wait()
                return done
            bench.say(f"month, {what}: {told['say']}")
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    raise RuntimeError(
        f"Expected the {what} of the month to end well; found exit {process.returncode}."
    )
