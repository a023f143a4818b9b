"""What is true of the day, computed from the files alone and compared with what we read."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from airspace import flights

DATA = Path(__file__).parents[2] / "shared" / "airspace" / "data"


def spans_in_the_file() -> list[tuple[int, int]]:
    with (DATA / "airports.csv").open(newline="") as file:
        known = {row["faa"] for row in csv.DictReader(file)}
    with (DATA / "flights-2013-01-01.csv").open(newline="") as file:
        rows = [
            (
                int(row["dep_time"].zfill(4)[:2]) * 60 + int(row["dep_time"][-2:]),
                int(row["air_time"]),
            )
            for row in csv.DictReader(file)
            if "NA" not in (row["dep_time"], row["air_time"])
            and {row["origin"], row["dest"]} <= known
        ]
    return [(departure, departure + minutes) for departure, minutes in rows]


def airborne_in_the_file(tick: int) -> int:
    return sum(departure <= tick < arrival for departure, arrival in spans_in_the_file())


def test_the_file_holds_805_flights_and_we_read_them_all():
    spans = spans_in_the_file()

    read = flights.real_day().flights

    assert len(spans) == 805
    assert [(flight.departure_tick, flight.arrival_tick) for flight in read] == spans


@pytest.mark.parametrize(("tick", "airborne"), [(480, 93), (720, 130), (1080, 153), (1200, 158)])
def test_the_count_in_the_air_is_true_at_known_ticks(tick, airborne):
    read = flights.real_day().flights

    counted = flights.airborne_by_tick(read)

    assert airborne_in_the_file(tick) == airborne
    assert counted[tick] == airborne


def test_the_day_peaks_at_166_in_the_air_at_1915():
    spans = spans_in_the_file()
    by_hand = [
        sum(departure <= tick < arrival for departure, arrival in spans)
        for tick in range(flights.TICKS)
    ]

    counted = flights.airborne_by_tick(flights.real_day().flights)

    assert max(by_hand) == 166
    assert by_hand.index(166) == 19 * 60 + 15
    assert counted == by_hand


def test_the_replay_ends_with_nineteen_flights_still_in_the_air():
    spans = spans_in_the_file()

    last_departure = max(departure for departure, _ in spans)
    last_arrival = max(arrival for _, arrival in spans)

    assert (last_departure, last_arrival) == (1_423, 1_696)
    assert airborne_in_the_file(flights.TICKS - 1) == 19
    assert sum(arrival >= flights.TICKS for _, arrival in spans) == 19


def test_every_row_is_a_flight_or_has_its_reason():
    with (DATA / "flights-2013-01-01.csv").open(newline="") as file:
        rows = sum(1 for _ in csv.DictReader(file))

    day = flights.real_day()

    reasons = [row.reason for row in day.unusable]
    assert rows == 842
    assert len(day.flights) + len(day.unusable) == rows
    assert (reasons.count("never_flown"), reasons.count("unknown_airport")) == (11, 26)
    assert reasons.count("unreadable") == 0
