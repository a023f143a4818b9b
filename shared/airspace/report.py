"""What the demo shows: bars while it works, a short table when it is done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn
from rich.progress import TimeElapsedColumn as Elapsed
from rich.table import Table
from rich.text import Text

from airspace.course import Course
from airspace.flights import TICKS, Day, Unusable

TITLES: Final[Mapping[str, str]] = {
    "admit": "commands admitted",
    "tick": "ticks published",
    "land": "rows landed",
    "ask again": "receipts checked",
    "read": "read from the lake",
    "as it was": "the day as it was",
    "what if": "the day forked",
    "compare": "evenings compared",
    "draw": "picture",
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """All that the table tells."""

    day: Day
    course: Course
    rows_read: int
    peak: str
    disagreeing: Sequence[int]
    data_files: int
    read_seconds: float
    total_seconds: float
    picture: Path
    root: Path


class Bars:
    """One progress bar for each stage, shown when the stage begins."""

    def __init__(self, console: Console) -> None:
        self._progress = Progress(
            TextColumn("{task.description:<20}"),
            BarColumn(bar_width=40),
            MofNCompleteColumn(),
            Elapsed(),
            console=console,
        )
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def __call__(self, stage: str, done: int, total: int | None) -> None:
        if stage not in self._tasks:
            self._tasks[stage] = self._progress.add_task(TITLES[stage], total=total)
        self._progress.update(self._tasks[stage], completed=done, total=total)


def table_of(outcome: Outcome) -> Table:
    """Return the demo's result as a table of two columns."""
    return two_columns(lines_of(outcome))


def two_columns(lines: Iterable[tuple[str, str]]) -> Table:
    """Return lines of a name and a text as a table."""
    table = Table(show_header=False, box=None, padding=(0, 2), title_justify="left")
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in lines:
        table.add_row(Text(name), Text(text))
    return table


def lines_of(outcome: Outcome) -> list[tuple[str, str]]:
    """Return the lines of the table, as name and text."""
    day, course = outcome.day, outcome.course
    rows = len(day.flights) + len(day.unusable)
    return [
        ("flights", f"{len(day.flights):,} of {rows:,} rows replayed"),
        *(("unusable rows", text) for text in reasons(day.unusable)),
        ("commands admitted", f"{course.commands:,} in {course.batches} batches"),
        *statuses(course.statuses),
        ("ticks", f"{TICKS:,} (0 to {TICKS - 1:,}), {course.ticks:,} of them in this run"),
        ("wall time", wall_time(outcome)),
        ("peak airborne", outcome.peak),
        ("rows landed", f"{course.landed.rows:,} in {course.landed.files:,} files in this run"),
        ("rows read back", f"{outcome.rows_read:,}, by a new process"),
        ("Iceberg data files", f"{outcome.data_files:,}"),
        ("compared", comparison(outcome.disagreeing)),
        ("picture", str(outcome.picture)),
        ("data", str(outcome.root)),
    ]


def reasons(unusable: Sequence[Unusable]) -> list[str]:
    """Return one text for each reason, the most frequent first."""
    lines = []
    for reason, count in Counter(row.reason for row in unusable).most_common():
        details = Counter(row.detail for row in unusable if row.reason == reason)
        shown = ", ".join(f"{detail} {times}" for detail, times in details.most_common(8))
        lines.append(f"{count} {reason} ({shown})")
    return lines


def statuses(counted: Mapping[str, int]) -> list[tuple[str, str]]:
    """Return applied and rejected always, whatever else there is after them."""
    others = sorted(set(counted) - {"applied", "rejected"})
    return [
        (f"commands {status}", f"{counted.get(status, 0):,}")
        for status in ("applied", "rejected", *others)
    ]


def wall_time(outcome: Outcome) -> str:
    """Return the seconds of the run, in all and of its stages."""
    stages = [*outcome.course.seconds.items(), ("read", outcome.read_seconds)]
    parts = ", ".join(f"{stage} {seconds:.1f}" for stage, seconds in stages)
    return f"{outcome.total_seconds:.1f} s ({parts})"


def comparison(disagreeing: Sequence[int]) -> str:
    """Return whether the counts in the air are those of the file."""
    if not disagreeing:
        return f"airborne as in the file at all {TICKS:,} ticks"
    return (
        f"NOT as in the file at {len(disagreeing):,} of {TICKS:,} ticks,"
        f" the first is tick {disagreeing[0]:,}"
    )
