"""The month that is replayed is the month of the file, and begins with the day of the demo."""

from __future__ import annotations

import numpy as np
import pytest
from tests.bench import floors, month_facts, month_run

from airspace.flights import airborne_by_tick, real_day
from airspace.motion import along_great_circle


@pytest.fixture(scope="module")
def facts():
    return month_facts.facts(31)


def test_the_file_holds_25720_flights_in_27004_lines(facts):
    assert (len(facts.spans), facts.lines, facts.ticks) == (25_720, 27_004, 44_640)


def test_what_is_replayed_is_what_the_file_says(facts):
    replayed = month_run.flights(31)

    assert [(flight.departure_tick, flight.arrival_tick) for flight in replayed] == [*facts.spans]


def test_the_first_day_is_the_day_of_the_demo():
    day = month_facts.facts(1)

    flights = real_day().flights

    assert list(day.spans) == [(each.departure_tick, each.arrival_tick) for each in flights]
    assert day.airborne() == airborne_by_tick(flights, ticks=day.ticks)


def test_every_minute_in_the_air_is_a_row_and_every_landing_one_more(facts):
    minutes = sum(min(until, facts.ticks) - start for start, until in facts.spans)

    assert sum(facts.rows()) == minutes + facts.landed
    assert sum(facts.in_the_air(22_860).values()) == facts.airborne()[22_860]


def test_the_floor_computes_the_positions_of_the_demo_by_a_formula_of_its_own():
    airports = np.array([[40.6, -73.8], [33.9, -118.4], [21.3, -157.9], [64.8, -147.9]])
    start, end = (airports[list(each)].T for each in ((0, 1, 0, 3), (1, 0, 2, 0)))
    part = np.array([0.0, 0.25, 0.5, 0.99])

    expected = along_great_circle(start=tuple(start), end=tuple(end), fraction=part)

    assert np.allclose(floors.between(start, end, part), expected, atol=1e-6)
