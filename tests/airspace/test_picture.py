"""What the picture of the day promises."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from airspace.flights import TICKS, known_airports
from airspace.picture import SPREAD, Sightings, clock, draw, projected, spread


def flown(*, entity_id: int, departure: int, minutes: int) -> list[tuple[int, int, float, float]]:
    return [
        (entity_id, departure + n, 40.0 - 10.0 * n / minutes, -74.0 - 40.0 * n / minutes)
        for n in range(minutes)
    ]


def sightings_of(*flights: list[tuple[int, int, float, float]]) -> Sightings:
    rows = [row for flight in flights for row in flight]
    return Sightings(*(np.array(column) for column in zip(*rows, strict=True)))


def test_a_png_of_the_asked_size_is_written(tmp_path):
    sightings = sightings_of(
        flown(entity_id=1, departure=400, minutes=200), flown(entity_id=2, departure=500, minutes=1)
    )

    draw(sightings, known_airports().values(), tmp_path / "day.png", dpi=50)

    head = (tmp_path / "day.png").read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", head[16:24]) == (650, 375)


def test_the_count_in_the_air_is_one_number_for_every_tick():
    sightings = sightings_of(
        flown(entity_id=1, departure=10, minutes=3), flown(entity_id=2, departure=12, minutes=2)
    )

    airborne = sightings.airborne()

    assert len(airborne) == TICKS
    assert airborne[9:15].tolist() == [0, 1, 1, 2, 1, 0]


def test_aircraft_of_one_route_are_drawn_apart_but_near_their_line_and_end_on_it():
    early = flown(entity_id=1, departure=360, minutes=240)
    late = flown(entity_id=2, departure=1_200, minutes=240)

    entity_ids, _, x, y = spread(sightings_of(late, early))

    _, _, latitudes, longitudes = (np.array(column) for column in zip(*early, strict=True))
    true_x, true_y = projected(latitudes, longitudes)
    for entity_id in (1, 2):
        beside = np.hypot(x[entity_ids == entity_id] - true_x, y[entity_ids == entity_id] - true_y)
        assert beside.max() <= SPREAD
        assert beside[[0, -1]] == pytest.approx(0, abs=1e-9)
    middle_y = [y[entity_ids == entity_id][120] for entity_id in (1, 2)]
    assert middle_y[0] != pytest.approx(middle_y[1], abs=SPREAD / 10)


def test_the_map_has_its_centre_in_the_middle_and_north_above():
    x, y = projected(np.array([39.0, 49.0, 39.0]), np.array([-104.0, -104.0, -94.0]))

    assert (x[0], y[0]) == pytest.approx((0, 0))
    assert y[1] > 0.17
    assert x[1] == pytest.approx(0)
    assert x[2] > 0.13


@pytest.mark.parametrize(("tick", "shown"), [(0, "00:00"), (1_155, "19:15"), (1_499, "00:59")])
def test_a_tick_is_shown_as_a_time_of_day(tick, shown):
    assert clock(tick) == shown
