"""How rows are judged."""

from __future__ import annotations

import pytest

from airspace.flights import Airport, Flight, Unusable, airborne_by_tick, parsed, tick_of

HEADER = "month,day,dep_time,air_time,carrier,flight,tailnum,origin,dest,distance"
JFK = Airport("JFK", 40.64, -73.78)
MIA = Airport("MIA", 25.79, -80.29)
AIRPORTS = {"JFK": JFK, "MIA": MIA}


@pytest.mark.parametrize(
    ("hhmm", "tick"),
    [
        ("1", 1),
        ("0005", 5),
        ("59", 59),
        ("100", 60),
        ("517", 317),
        ("2353", 1_433),
        ("2400", 1_440),
    ],
)
def test_a_local_time_is_the_minute_of_its_day(hhmm, tick):
    assert tick_of(hhmm) == tick


@pytest.mark.parametrize("hhmm", ["60", "1275", "2401", "-5", "noon", ""])
def test_a_time_that_no_clock_shows_is_refused(hhmm):
    with pytest.raises(ValueError):
        tick_of(hhmm)


@pytest.mark.parametrize(
    ("row", "verdict"),
    [
        (
            "1,1,542,160,AA,1141,N619AA,JFK,MIA,1089",
            Flight("AA", 1141, "N619AA", JFK, MIA, 342, 502),
        ),
        ("1,1,2400,10,AA,1,N1,JFK,MIA,1089", Flight("AA", 1, "N1", JFK, MIA, 1_440, 1_450)),
        ("1,1,NA,NA,AA,1,N1,JFK,MIA,1089", Unusable(2, "never_flown", "no departure time")),
        ("1,1,542,NA,AA,1,N1,JFK,MIA,1089", Unusable(2, "never_flown", "no air time")),
        ("1,1,542,160,AA,1,N1,JFK,SJU,1598", Unusable(2, "unknown_airport", "SJU")),
        ("1,1,542,160,AA,1,N1,XXX,MIA,1598", Unusable(2, "unknown_airport", "XXX")),
        ("1,1,NA,NA,AA,1,N1,JFK,SJU,1598", Unusable(2, "never_flown", "no departure time")),
    ],
)
def test_a_row_is_a_flight_or_unusable_for_one_reason(row, verdict):
    day = parsed([HEADER, row], AIRPORTS)

    assert (*day.flights, *day.unusable) == (verdict,)


@pytest.mark.parametrize(
    "row",
    [
        "1,1,1275,160,AA,1,N1,JFK,MIA,1089",
        "1,1,542,0,AA,1,N1,JFK,MIA,1089",
        "1,1,542,soon,AA,1,N1,JFK,MIA,1089",
        "1,1,542,160,AA,one,N1,JFK,MIA,1089",
    ],
)
def test_numbers_that_make_no_sense_are_unreadable_and_say_so(row):
    (unusable,) = parsed([HEADER, row], AIRPORTS).unusable

    assert unusable.reason == "unreadable"
    assert unusable.detail


def test_a_flight_is_in_the_air_from_its_departure_to_the_tick_before_its_arrival():
    flight = Flight("AA", 1, "N1", JFK, MIA, 3, 5)

    assert airborne_by_tick([flight], ticks=7) == [0, 0, 0, 1, 1, 0, 0]
