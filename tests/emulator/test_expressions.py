"""Schedule expressions are read as AWS reads them, and refused by name where they are not run."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from perdure.kernel.errors import InvalidValue
from perdure_emulator.expressions import expression

pytestmark = pytest.mark.cloud


def at(text):
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


NOON = at("2026-11-29T12:00:30")  # a Sunday


@pytest.mark.parametrize(
    ("text", "times"),
    [
        ("rate(1 minute)", ["2026-11-29T12:01:30", "2026-11-29T12:02:30"]),
        ("rate(5 minutes)", ["2026-11-29T12:05:30", "2026-11-29T12:10:30"]),
        ("rate(2 hours)", ["2026-11-29T14:00:30"]),
        ("rate(1 day)", ["2026-11-30T12:00:30"]),
        ("at(2026-11-29T12:00:31)", ["2026-11-29T12:00:31", None]),
        ("at(2026-11-29T12:00:30)", [None]),
        ("cron(* * * * ? *)", ["2026-11-29T12:01:00", "2026-11-29T12:02:00"]),
        ("cron(0/15 * * * ? *)", ["2026-11-29T12:15:00", "2026-11-29T12:30:00"]),
        ("cron(5,50 8-9 * * ? *)", ["2026-11-30T08:05:00", "2026-11-30T08:50:00"]),
        ("cron(0 6 ? * MON-FRI *)", ["2026-11-30T06:00:00", "2026-12-01T06:00:00"]),
        ("cron(0 6 ? * 1 *)", ["2026-12-06T06:00:00"]),
        ("cron(0 0 L * ? *)", ["2026-11-30T00:00:00", "2026-12-31T00:00:00"]),
        ("cron(0 0 29 FEB ? *)", ["2028-02-29T00:00:00", "2032-02-29T00:00:00"]),
        ("cron(0 0 1 1/6 ? *)", ["2027-01-01T00:00:00", "2027-07-01T00:00:00"]),
        ("cron(0 0 1 1 ? 2025)", [None]),
        ("cron(0 0 30 2 ? *)", [None]),
        ("cron(0 0 1 1 ? 2030-2031)", ["2030-01-01T00:00:00", "2031-01-01T00:00:00", None]),
    ],
)
def test_times_come_one_after_another(text, times):
    moment, found = NOON, []
    for _ in times:
        moment = expression(text).after(moment)
        found.append(moment)

    assert found == [None if each is None else at(each) for each in times]


def test_clock_of_a_time_zone_is_that_of_its_summer_and_its_winter():
    morning = expression("cron(0 6 * * ? *)", zone="Europe/Berlin")

    assert morning.after(at("2026-07-01T00:00:00")) == at("2026-07-01T04:00:00")
    assert morning.after(at("2026-12-01T00:00:00")) == at("2026-12-01T05:00:00")
    once = expression("at(2026-07-01T06:00:00)", zone="Europe/Berlin")
    assert once.after(NOON) is None
    assert once.after(at("2026-07-01T03:59:59")) == at("2026-07-01T04:00:00")


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "''"),
        ("rate(0 minutes)", "rate"),
        ("rate(5 seconds)", "rate"),
        ("at(tomorrow)", "at"),
        ("cron(0 6 * * *)", "six fields"),
        ("cron(0 6 * * * *)", "one `?`"),
        ("cron(0 6 ? * ? *)", "one `?`"),
        ("cron(60 * * * ? *)", "minutes of cron.*60"),
        ("cron(0 24 * * ? *)", "hours of cron.*24"),
        ("cron(0 6 15W * ? *)", "day of month of cron.*15W"),
        ("cron(0 6 ? * 6L *)", "day of week of cron.*6L"),
        ("cron(0 6 ? * TUE#2 *)", "day of week of cron.*TUE#2"),
        ("cron(0 6 ? * 0 *)", "day of week of cron.*0"),
        ("cron(0 6 1 MAI ? *)", "month of cron.*MAI"),
        ("cron(0/0 6 1 * ? *)", "minutes of cron.*0/0"),
        ("cron(9-5 6 1 * ? *)", "minutes of cron.*9-5"),
        ("cron(0 6 1 * ? 1969)", "year of cron.*1969"),
    ],
)
def test_what_is_none_or_not_run_is_refused_by_name(text, named):
    with pytest.raises(InvalidValue, match=named):
        expression(text)


def test_time_zone_that_is_none_is_refused():
    with pytest.raises(InvalidValue, match="Mars"):
        expression("cron(0 6 * * ? *)", zone="Mars/Olympus")
