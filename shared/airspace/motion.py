"""Great circles: where every aircraft is at a tick, in one pass over columns."""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Floats: TypeAlias = npt.NDArray[np.float64]

DECIMALS: Final = 7
"""Degrees are rounded to about a centimetre: sines may differ in their last bit from one processor
to the next, and a tick that is recomputed elsewhere must come out the same."""


def moved(rows: pa.Table, tick: int) -> pa.Table:
    """Return ``rows`` with the positions their routes imply at ``tick``; all else is unchanged.

    Shape: columns ``position__*`` and ``route__*`` of :mod:`airspace.components`, without nulls, beside
    any others; rows and columns keep their order. An aircraft is at its origin until its departure and
    at its destination from its arrival on.
    """
    latitude, longitude = along_great_circle(
        start=(floats(rows, "route__origin_latitude"), floats(rows, "route__origin_longitude")),
        end=(
            floats(rows, "route__destination_latitude"),
            floats(rows, "route__destination_longitude"),
        ),
        fraction=progress(
            tick,
            departure=floats(rows, "route__departure_tick"),
            arrival=floats(rows, "route__arrival_tick"),
        ),
    )
    return replaced(
        replaced(rows, "position__latitude", latitude), "position__longitude", longitude
    )


def progress(tick: int, *, departure: Floats, arrival: Floats) -> Floats:
    """Return the part of each route that is behind the aircraft, from 0 to 1."""
    duration = np.maximum(arrival - departure, 1)
    return np.clip((tick - departure) / duration, 0, 1)


def along_great_circle(
    *, start: tuple[Floats, Floats], end: tuple[Floats, Floats], fraction: Floats
) -> tuple[Floats, Floats]:
    """Return latitudes and longitudes at ``fraction`` of the shortest ways from start to end.

    Units: degrees. Between antipodes every great circle is a shortest way; the one over the north pole
    is taken.
    """
    origin, destination = unit_vectors(*start), unit_vectors(*end)
    cosine = np.sum(origin * destination, axis=0)
    across = destination - cosine * origin
    sine = np.linalg.norm(across, axis=0)

    is_plain = sine > 1e-12
    heading = np.where(is_plain, across / np.where(is_plain, sine, 1), northward(*start))
    angle = np.arctan2(sine, cosine) * fraction
    return degrees_of(origin * np.cos(angle) + heading * np.sin(angle))


def unit_vectors(latitude: Floats, longitude: Floats) -> Floats:
    """Return the points of the unit sphere, shape (3, n)."""
    phi, theta = np.radians(latitude), np.radians(longitude)
    return np.stack([np.cos(phi) * np.cos(theta), np.cos(phi) * np.sin(theta), np.sin(phi)])


def northward(latitude: Floats, longitude: Floats) -> Floats:
    """Return the directions in which the north pole lies, shape (3, n)."""
    phi, theta = np.radians(latitude), np.radians(longitude)
    return np.stack([-np.sin(phi) * np.cos(theta), -np.sin(phi) * np.sin(theta), np.cos(phi)])


def degrees_of(points: Floats) -> tuple[Floats, Floats]:
    """Return latitudes and longitudes of vectors of any length, shape (3, n)."""
    x, y, z = points
    latitude = np.degrees(np.arctan2(z, np.hypot(x, y)))
    longitude = np.degrees(np.arctan2(y, x))
    return np.round(latitude, DECIMALS), np.round(longitude, DECIMALS)


def floats(rows: pa.Table, column: str) -> Floats:
    """Return a numeric column as an array."""
    return np.asarray(rows.column(column).to_numpy(), dtype=np.float64)


def replaced(rows: pa.Table, column: str, values: Floats) -> pa.Table:
    """Return ``rows`` with other values in one column, of the same type and in the same place."""
    index = rows.schema.get_field_index(column)
    field = rows.schema.field(index)
    return rows.set_column(index, field, pa.array(values, type=field.type))
