"""What the only processor of the airspace promises."""

from __future__ import annotations

import math
import time

import numpy as np
import pyarrow as pa
import pytest

from airspace.motion import moved

JFK = (40.639751, -73.778925)
LAX = (33.942536, -118.408075)
HNL = (21.318681, -157.922428)
TOKYO = (35.552258, 139.779694)
POLE = (90.0, 0.0)


def flying(*routes: tuple[tuple[float, float], tuple[float, float], int, int]) -> pa.Table:
    starts, ends, departures, arrivals = zip(*routes, strict=True)
    return pa.table(
        {
            "entity_id": pa.array(range(1, len(routes) + 1), pa.int64()),
            "position__latitude": pa.array([0.0] * len(routes), pa.float64()),
            "position__longitude": pa.array([0.0] * len(routes), pa.float64()),
            "route__origin": ["AAA"] * len(routes),
            "route__origin_latitude": [float(latitude) for latitude, _ in starts],
            "route__origin_longitude": [float(longitude) for _, longitude in starts],
            "route__destination_latitude": [float(latitude) for latitude, _ in ends],
            "route__destination_longitude": [float(longitude) for _, longitude in ends],
            "route__departure_tick": pa.array(departures, pa.int64()),
            "route__arrival_tick": pa.array(arrivals, pa.int64()),
        }
    )


def position(rows: pa.Table, index: int = 0) -> tuple[float, float]:
    return (
        rows.column("position__latitude")[index].as_py(),
        rows.column("position__longitude")[index].as_py(),
    )


def haversine(a: tuple[float, float], b: tuple[float, float]) -> float:
    phi_a, phi_b = math.radians(a[0]), math.radians(b[0])
    half = (
        math.sin((phi_b - phi_a) / 2) ** 2
        + math.cos(phi_a) * math.cos(phi_b) * math.sin(math.radians(b[1] - a[1]) / 2) ** 2
    )
    return 2 * math.asin(min(1.0, math.sqrt(half)))


@pytest.mark.parametrize(("tick", "where"), [(-5, JFK), (100, JFK), (400, LAX), (10_000, LAX)])
def test_an_aircraft_waits_at_its_origin_and_stays_at_its_destination(tick, where):
    rows = flying((JFK, LAX, 100, 400))

    assert position(moved(rows, tick)) == pytest.approx(where, abs=1e-6)


@pytest.mark.parametrize(("start", "end"), [(JFK, LAX), (JFK, HNL), (LAX, TOKYO), (POLE, LAX)])
@pytest.mark.parametrize("tick", [25, 50, 90])
def test_on_the_way_it_has_flown_its_part_and_is_nowhere_off_the_great_circle(start, end, tick):
    rows = flying((start, end, 0, 100))

    here = position(moved(rows, tick))

    whole = haversine(start, end)
    assert haversine(start, here) == pytest.approx(whole * tick / 100, abs=1e-7)
    assert haversine(here, end) == pytest.approx(whole * (1 - tick / 100), abs=1e-7)


def test_longitudes_stay_within_180_degrees_across_the_date_line():
    rows = flying((LAX, TOKYO, 0, 100))

    longitudes = [position(moved(rows, tick))[1] for tick in range(101)]

    assert all(-180 <= longitude <= 180 for longitude in longitudes)
    assert min(longitudes) < -170
    assert max(longitudes) > 170


def test_a_flight_to_where_it_started_stays_there():
    rows = flying((JFK, JFK, 0, 100), (POLE, POLE, 0, 100))

    halfway = moved(rows, 50)

    assert position(halfway, 0) == pytest.approx(JFK, abs=1e-6)
    assert position(halfway, 1)[0] == pytest.approx(90)


def test_a_flight_to_the_antipode_takes_the_way_over_the_north_pole():
    rows = flying(((10.0, 20.0), (-10.0, -160.0), 0, 180), ((-90.0, 0.0), POLE, 0, 180))

    assert position(moved(rows, 80), 0)[0] == pytest.approx(90)
    assert position(moved(rows, 100), 0) == pytest.approx((70, -160))
    assert position(moved(rows, 90), 1) == pytest.approx((0, 0), abs=1e-6)


def test_a_flight_without_duration_has_arrived():
    rows = flying((JFK, LAX, 7, 7))

    assert position(moved(rows, 8)) == pytest.approx(LAX, abs=1e-6)


def test_order_schema_and_all_other_columns_are_kept():
    rows = flying((JFK, LAX, 0, 100), (LAX, HNL, 20, 30), (HNL, JFK, 5, 500))

    after = moved(rows, 25)

    untouched = [name for name in rows.column_names if not name.startswith("position__")]
    assert after.schema == rows.schema
    assert after.select(untouched) == rows.select(untouched)


def test_the_rows_given_are_not_changed():
    rows = flying((JFK, LAX, 0, 100))
    before = rows.to_pylist()

    moved(rows, 50)

    assert rows.to_pylist() == before


def test_rows_in_several_chunks_and_no_rows_at_all_are_fine():
    rows = flying((JFK, LAX, 0, 100), (LAX, HNL, 20, 30))

    chunked = pa.concat_tables([rows.slice(0, 1), rows.slice(1)])

    assert moved(chunked, 25).to_pylist() == moved(rows, 25).to_pylist()
    assert moved(rows.slice(0, 0), 25).num_rows == 0


def test_the_position_changes_at_every_tick_of_a_flight():
    rows = flying((JFK, HNL, 10, 669))

    path = [position(moved(rows, tick)) for tick in range(10, 670)]

    assert len(set(path)) == len(path)


@pytest.mark.bench
def test_cost_of_moving_ten_thousand_aircraft(record_property):
    random = np.random.default_rng(7)
    places = [(float(a), float(b)) for a, b in random.uniform(-80, 80, (20_000, 2))]
    rows = flying(*((places[n], places[n + 10_000], 0, 100) for n in range(10_000)))

    began = time.perf_counter()
    for tick in range(1, 21):
        moved(rows, tick)
    cost_ms = (time.perf_counter() - began) / 20 * 1_000

    record_property("ms per tick of 10,000 aircraft", cost_ms)


def test_the_work_of_python_does_not_grow_with_the_rows(count_calls):
    few = flying(*[(JFK, LAX, 0, 100)] * 10)
    many = flying(*[(JFK, LAX, 0, 100)] * 10_000)

    assert count_calls(lambda: moved(few, 50)) == count_calls(lambda: moved(many, 50))
