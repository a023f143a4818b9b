"""What a closed airport prevents, and what it does not."""

from __future__ import annotations

import csv
import io
from importlib import resources

import pytest

from airspace.closure import Closing, grounded
from airspace.flights import Flight, known_airports, real_day
from airspace.twodays import BLOCK, CLOSING

pytestmark = pytest.mark.lifecycle

NOON = Closing(airport="EWR", after_tick=720)


def flight(origin: str, departure: int, tail: str = "N1") -> Flight:
    places = known_airports()
    return Flight("UA", 1, tail, places[origin], places["ORD"], departure, departure + 90)


def test_whatever_leaves_the_closed_airport_later_is_held():
    at_noon, after = flight("EWR", 720), flight("EWR", 721)

    prevented = grounded([at_noon, after], NOON)

    assert prevented.held == (after,)
    assert prevented.stranded == ()


def test_an_aircraft_left_behind_does_not_leave_from_elsewhere_later():
    held, later = flight("EWR", 800), flight("JFK", 1_200)
    before, other = flight("LGA", 730), flight("JFK", 1_200, tail="N2")

    prevented = grounded([later, before, other, held], NOON)

    assert prevented.held == (held,)
    assert prevented.stranded == (later,)
    assert prevented.flights == {held, later}


def test_an_aircraft_that_has_left_the_airport_in_time_flies_on():
    left, later = flight("EWR", 700), flight("JFK", 1_200)

    prevented = grounded([left, later], NOON)

    assert prevented.flights == frozenset()


def test_on_the_real_day_newark_holds_196_and_strands_one():
    text = (resources.files("airspace") / "data" / "flights-2013-01-01.csv").read_text()
    known = {each.code for each in real_day().flights for each in (each.origin, each.destination)}
    held = [
        row
        for row in csv.DictReader(io.StringIO(text))
        if row["origin"] == "EWR" and row["dest"] in known and row["air_time"].isdigit()
        if int(row["dep_time"]) > 1_200
    ]

    prevented = grounded(real_day().flights, CLOSING)

    assert len(prevented.held) == len(held) == 196
    assert [each.tail for each in prevented.stranded] == ["N516JB"]
    assert prevented.stranded[0].tail in {row["tailnum"] for row in held}


def test_no_flight_of_the_day_is_shorter_than_a_block_of_admission():
    shortest = min(each.arrival_tick - each.departure_tick for each in real_day().flights)

    assert shortest > BLOCK
    assert CLOSING.after_tick % BLOCK == 0
