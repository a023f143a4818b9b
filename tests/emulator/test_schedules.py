"""Schedules call functions when their clock says, late or twice as may be; the clock is told."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from perdure_emulator.declared import Function, Schedule
from perdure_emulator.expressions import expression
from perdure_emulator.sandboxes import TimedOut
from perdure_emulator.schedule import Clock, deliver, run, scheduled_event

pytestmark = pytest.mark.cloud

START = datetime(2030, 1, 1, tzinfo=UTC)
MINUTE = Schedule("EveryMinute", expression("rate(1 minute)"), "aws.scheduler")


class Day:
    """Real time that passes only while somebody waits, and ends after so many waits."""

    def __init__(self, waits):
        self.seconds = 0.0
        self.waits = waits

    def monotonic(self):
        return self.seconds

    async def pause(self, seconds):
        if not self.waits:
            raise asyncio.CancelledError
        self.waits -= 1
        self.seconds += seconds


class Fake:
    """A function that keeps when it was called, and takes as long as it is told."""

    def __init__(self, day, *schedules, takes=0.0, error=None):
        self.function = Function("Land", Path("land/app.py"), "handler", 900, schedules)
        self.day = day
        self.takes = takes
        self.error = error
        self.events = []
        self.called_at = []

    async def invoke(self, event, *, seconds_max):
        self.events.append(event)
        self.called_at.append(self.day.seconds)
        self.day.seconds += self.takes
        if self.error is not None:
            raise self.error
        return {}

    def times(self):
        return [each["time"] for each in self.events]


def followed(*schedules, waits=3, speed=1.0, **given):
    day = Day(waits)
    function = Fake(day, *schedules, **given)
    clock = Clock(START, speed, day.monotonic)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(run([function], clock, pause=day.pause))
    return function


def test_event_says_the_time_of_the_schedules_clock():
    function = followed(MINUTE)

    assert function.times() == [
        "2030-01-01T00:01:00Z",
        "2030-01-01T00:02:00Z",
        "2030-01-01T00:03:00Z",
    ]


def test_clock_that_runs_faster_calls_sooner_and_says_the_same_times():
    function = followed(MINUTE, speed=60)

    assert function.called_at == [1.0, 2.0, 3.0]
    assert function.times()[-1] == "2030-01-01T00:03:00Z"


def test_function_that_takes_long_is_called_once_for_all_that_it_missed():
    function = followed(MINUTE, takes=150.0)

    assert function.times()[:3] == [
        "2030-01-01T00:01:00Z",
        "2030-01-01T00:03:00Z",
        "2030-01-01T00:06:00Z",
    ]


@pytest.mark.parametrize("error", [TimedOut("Land"), RuntimeError("broken")])
def test_schedule_goes_on_after_a_call_that_failed_and_says_so(capsys, error):
    function = followed(MINUTE, error=error)

    assert len(function.events) == 3
    assert capsys.readouterr().err.count("perdure: Land") == 3


def test_schedule_that_is_over_calls_no_more_and_others_go_on():
    once = Schedule("Once", expression("at(2030-01-01T00:00:30)"), "aws.scheduler")

    function = followed(once, MINUTE)

    assert function.times().count("2030-01-01T00:00:30Z") == 1
    assert len(function.times()) > 1


async def test_event_can_be_delivered_again_and_late():
    function = Fake(Day(0), MINUTE)

    await deliver(function, MINUTE, START)
    await deliver(function, MINUTE, START)
    await deliver(function, MINUTE, START - timedelta(hours=1))

    assert function.times() == [
        "2030-01-01T00:00:00Z",
        "2030-01-01T00:00:00Z",
        "2029-12-31T23:00:00Z",
    ]


def test_event_is_that_of_its_scheduler_or_its_own_input():
    rule = Schedule("Rule", expression("rate(1 minute)"), "aws.events")
    own = Schedule("Own", expression("rate(1 minute)"), "aws.events", {"do": "it"})

    assert scheduled_event(MINUTE, START)["source"] == "aws.scheduler"
    assert scheduled_event(rule, START)["source"] == "aws.events"
    assert scheduled_event(rule, START)["resources"] == [
        "arn:aws:events:us-east-1:000000000000:rule/Rule"
    ]
    assert scheduled_event(own, START) == {"do": "it"}
