"""What a soak has shown: percentiles, growth over time, and what must not grow."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

BEGIN = "<!-- soak: written by python -m tests.proof.soak --write-docs -->"
END = "<!-- end of soak -->"

MEGABYTE = 1_000_000

MOMENTS_MIN = 3
"""One in each third: of fewer nothing can be said about growth."""

TIMES_MAX = 1.2
"""How much more each tick may leave behind in the last third than in the middle one. In a short
run also how much larger the server may be."""

MEMORY_MARGIN_BYTES = 16 * MEGABYTE
"""By which the last third may be larger: Arrow's pool and Python's arenas are given back in pieces
of several megabytes."""

LONG_SECONDS = 600
"""From here on memory must be flat: shorter runs are still filling what is reused."""

MEMORY_SLOPE_BYTES = MEGABYTE
"""Bytes a minute by which memory may grow over the last two thirds of a long run."""

FILES_MARGIN = 0.5
"""Files for each tick beside that: a landing falls into one third or the next."""

DESCRIPTORS_MARGIN = 12
"""Descriptors beside that: connections of clients, files that are read just now."""


@dataclass(frozen=True)
class Moment:
    """How things stood at one time of the run."""

    seconds: float
    ticks: int
    rss_bytes: int
    descriptors: int
    threads: int
    objects: int
    syncs: int
    files: int
    """Files that stay: of SQLite, of tables, archives."""
    segments: int
    """Files of rows of ticks: what a trim lets go of."""
    lake_bytes: int
    sqlite_bytes: int
    records: int


class TooShort(Exception):
    """A run of which nothing can be said, because it was over too soon."""


@dataclass(frozen=True)
class Soaked:
    """Everything that a run has found."""

    moments: Sequence[Moment]
    seconds: Mapping[str, Sequence[float]]
    commands: int
    unexpected: Sequence[str]
    lost: Sequence[str]
    segments_max: int
    """How many segments there may be at any time: a world keeps those since its last checkpoint."""

    def __post_init__(self) -> None:
        if len(self.moments) < MOMENTS_MIN:
            raise TooShort(
                f"Expected at least {MOMENTS_MIN} looks at the server; found {len(self.moments)}."
                " Soak for longer, or for more operations."
            )

    def thirds(self) -> tuple[Sequence[Moment], Sequence[Moment]]:
        """Return the moments of the middle third and of the last: the first warms up."""
        size = len(self.moments) // 3
        return self.moments[-2 * size : -size], self.moments[-size:]

    def median(self, name: str, third: Sequence[Moment]) -> float:
        return statistics.median(getattr(each, name) for each in third)

    def a_tick(self, name: str, third: Sequence[Moment]) -> float:
        """Return by how much something grew with each tick."""
        before = self.moments[self.moments.index(third[0]) - 1]
        ticks = third[-1].ticks - before.ticks
        return (getattr(third[-1], name) - getattr(before, name)) / max(1, ticks)

    def memory_slope(self) -> float:
        """Return the bytes a minute by which memory grew in the last two thirds, by least squares."""
        middle, last = self.thirds()
        held = [*middle, *last]
        minutes = [each.seconds / 60 for each in held]
        return statistics.linear_regression(minutes, [each.rss_bytes for each in held]).slope

    def faults(self) -> list[str]:
        """Return what a soak must not show; nothing here is a matter of speed."""
        found = [*self.unexpected, *self.lost]
        middle, last = self.thirds()
        is_long = self.moments[-1].seconds >= LONG_SECONDS
        for name, margin in (
            ("rss_bytes", MEMORY_MARGIN_BYTES),
            ("descriptors", DESCRIPTORS_MARGIN),
            ("threads", 4),
        ):
            was, now = self.median(name, middle), self.median(name, last)
            if now > (1 if is_long else TIMES_MAX) * was + margin:
                found.append(f"{name} grew from {was:,.0f} to {now:,.0f}")
        slope = self.memory_slope()
        if is_long and slope > MEMORY_SLOPE_BYTES:
            found.append(f"rss_bytes grew by {slope:,.0f} a minute")
        most = max(each.segments for each in self.moments)
        if most > self.segments_max:
            found.append(f"segments: {most}, though {self.segments_max} are enough")
        for name, margin in (("files", FILES_MARGIN), ("syncs", 1.0), ("records", 1.0)):
            was, now = self.a_tick(name, middle), self.a_tick(name, last)
            if now > TIMES_MAX * max(was, 0) + margin:
                found.append(f"{name} for each tick grew from {was:.2f} to {now:.2f}")
        return found


def spelled(soaked: Soaked, facts: Mapping[str, Any], *, command: str, at: datetime) -> Any:
    """Return the report as values for JSON."""
    return {
        "command": command,
        "at": at.isoformat(timespec="seconds"),
        "machine": dict(facts),
        "commands": soaked.commands,
        "faults": soaked.faults(),
        "latency_ms": {
            kind: dict(zip(HEADINGS[1:], numbers, strict=True))
            for kind, numbers in percentiles(soaked).items()
        },
        "moments": [asdict(each) for each in soaked.moments],
    }


HEADINGS = ("request", "number", "p50 ms", "p90 ms", "p99 ms", "max ms")


def percentiles(soaked: Soaked) -> dict[str, tuple[float, ...]]:
    """Return number, median, 90th and 99th percentile and maximum, in ms, by kind of request."""
    found = {}
    for kind, seconds in sorted(soaked.seconds.items()):
        held = sorted(1e3 * each for each in seconds)
        ranks = (held[min(len(held) - 1, int(len(held) * part))] for part in (0.5, 0.9, 0.99))
        found[kind] = (len(held), *ranks, held[-1])
    return found


def lines(soaked: Soaked) -> Iterator[str]:
    """Yield the tables in Markdown: requests, then what was held over time."""
    yield f"| {' | '.join(HEADINGS)} |"
    yield "|---|--:|--:|--:|--:|--:|"
    for kind, (number, *ms) in percentiles(soaked).items():
        yield f"| {kind} | {number:,} | {' | '.join(f'{each:,.1f}' for each in ms)} |"
    yield ""
    yield "| of the server, or on disk | middle third | last third |"
    yield "|---|--:|--:|"
    middle, last = soaked.thirds()
    for name, title, unit in (
        ("rss_bytes", "resident memory, MB", MEGABYTE),
        ("descriptors", "open descriptors", 1),
        ("threads", "threads", 1),
        ("objects", "Python objects", 1),
        ("files", "files that stay", 1),
        ("segments", "segments of ticks", 1),
        ("lake_bytes", "files beside SQLite, MB", MEGABYTE),
        ("sqlite_bytes", "SQLite with its log, MB", MEGABYTE),
    ):
        pair = (soaked.median(name, third) / unit for third in (middle, last))
        yield f"| {title} | {' | '.join(f'{each:,.1f}' for each in pair)} |"
    for name in ("files", "syncs", "records"):
        pair = (soaked.a_tick(name, third) for third in (middle, last))
        yield f"| {name} more with each tick | {' | '.join(f'{each:,.2f}' for each in pair)} |"
    most = (max(each.segments for each in third) for third in (middle, last))
    yield f"| most segments, of {soaked.segments_max} allowed | {' | '.join(map(str, most))} |"
    ratios = (_bytes_a_record(third[-1]) for third in (middle, last))
    yield f"| bytes of SQLite for each record | {' | '.join(f'{each:,.0f}' for each in ratios)} |"


def _bytes_a_record(moment: Moment) -> float:
    return moment.sqlite_bytes / max(1, moment.records)


def told(soaked: Soaked) -> str:
    """Say in a sentence what was done, and what was wrong."""
    faults = soaked.faults()
    last = soaked.moments[-1]
    return (
        f"{last.seconds:,.0f} s, {soaked.commands:,} commands, {last.ticks:,} ticks;"
        f" {len(soaked.unexpected)} unexpected answers, {len(soaked.lost)} commands lost,"
        f" {'nothing grew' if not faults else '; '.join(faults[:5])}."
    )


def write_docs(page: Path, soaked: Soaked, machine: str, *, command: str, at: datetime) -> None:
    """Replace what stands between the markers of a page. Raises ValueError without them."""
    text = page.read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"Expected the markers {BEGIN} and {END} in {page}; found one or none.")
    held = "\n".join(lines(soaked))
    head = f"`{command}`, {at:%d %B %Y, %H:%M} UTC. {machine}"
    page.write_text(
        f"{before}{begin}\n\n{head}\n\n{told(soaked)}\n\n{held}\n\n{end}{after}", encoding="utf-8"
    )
