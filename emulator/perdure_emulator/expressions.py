"""Schedule expressions: `rate()`, `cron()` in AWS's six fields, and `at()`."""

from __future__ import annotations

import calendar
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final, Protocol
from zoneinfo import ZoneInfo

from perdure.kernel.errors import InvalidValue
from perdure.kernel.shown import shown

YEARS: Final = (1970, 2199)
"""Source: EventBridge Scheduler user guide, "Schedule types", cron-based schedules."""

_RATE: Final = re.compile(r"rate\((\d{1,9}) (minute|hour|day)s?\)", re.ASCII)
_SECONDS: Final = {"minute": 60, "hour": 3_600, "day": 86_400}
_CRON: Final = re.compile(r"cron\(([^()]*)\)")
_AT: Final = re.compile(r"at\(([^()]*)\)")
_AT_FORM: Final = "%Y-%m-%dT%H:%M:%S"

MONTHS: Final = tuple(calendar.month_abbr[1:])
WEEKDAYS: Final = ("Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat")
"""Sunday is 1. Source: as above."""

ANY: Final = "?"
LAST: Final = "L"


class Expression(Protocol):
    """When something is due."""

    def after(self, moment: datetime) -> datetime | None:
        """Return the first time later than ``moment``, None if there is none any more."""
        ...


@dataclass(frozen=True, slots=True)
class Rate:
    """Again and again. The first time is one interval after the start."""

    seconds: int

    def after(self, moment: datetime) -> datetime:
        return moment + timedelta(seconds=self.seconds)


@dataclass(frozen=True, slots=True)
class At:
    """Once."""

    moment: datetime

    def after(self, moment: datetime) -> datetime | None:
        return self.moment if self.moment > moment else None


@dataclass(frozen=True, slots=True)
class Cron:
    """At the minutes that six fields name, as the clock of a time zone shows them."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int] | None
    """Of the month, 0 for its last; None if weekdays say it."""
    months: frozenset[int]
    weekdays: frozenset[int] | None
    years: frozenset[int]
    zone: tzinfo = field(default=UTC)

    def after(self, moment: datetime) -> datetime | None:
        local = moment.astimezone(self.zone).replace(tzinfo=None)
        for day in self._days(local):
            for hour in sorted(self.hours):
                for minute in sorted(self.minutes):
                    wall = day.replace(hour=hour, minute=minute)
                    found = wall.replace(tzinfo=self.zone).astimezone(UTC)
                    if found > moment:
                        return found
        return None

    def _days(self, start: datetime) -> Iterator[datetime]:
        """Return the days that match, from that of ``start`` on."""
        day = start.replace(hour=0, minute=0, second=0, microsecond=0)
        last = max(self.years)
        while day.year <= last:
            if day.year not in self.years:
                day = day.replace(year=day.year + 1, month=1, day=1)
            elif day.month not in self.months:
                day = (day.replace(day=1) + timedelta(days=32)).replace(day=1)
            else:
                if self._matches(day):
                    yield day
                day += timedelta(days=1)

    def _matches(self, day: datetime) -> bool:
        if self.weekdays is not None:
            return (day.weekday() + 1) % 7 + 1 in self.weekdays
        assert self.days is not None, "one of the two says it"
        is_last = day.day == calendar.monthrange(day.year, day.month)[1]
        return day.day in self.days or (is_last and 0 in self.days)


def expression(text: str, *, zone: str | None = None) -> Expression:
    """Read a schedule expression. Raises InvalidValue for what is none, or not run here."""
    rate, cron, at = _RATE.fullmatch(text), _CRON.fullmatch(text), _AT.fullmatch(text)
    if rate is not None and int(rate[1]):
        return Rate(int(rate[1]) * _SECONDS[rate[2]])
    if cron is not None:
        return _cron(cron[1].split(), text, _zone(zone))
    if at is not None:
        try:
            moment = datetime.strptime(at[1], _AT_FORM).replace(tzinfo=_zone(zone))
        except ValueError:
            pass
        else:
            return At(moment.astimezone(UTC))
    raise InvalidValue(
        expected="a schedule as rate(5 minutes), cron(0 6 * * ? *) or at(2026-12-01T06:00:00)",
        found=shown(text),
    )


def _zone(name: str | None) -> tzinfo:
    if name is None:
        return UTC
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, LookupError) as error:
        raise InvalidValue(expected="a time zone", found=shown(name)) from error


def _cron(fields: list[str], text: str, zone: tzinfo) -> Cron:
    if len(fields) != 6:
        raise InvalidValue(
            expected="six fields in cron(): minutes, hours, day of month, month, day of week, year",
            found=shown(text),
        )
    minutes, hours, days, months, weekdays, years = fields
    if (days == ANY) == (weekdays == ANY):
        raise InvalidValue(
            expected="one `?` in cron(), as day of month or as day of week", found=shown(text)
        )
    return Cron(
        minutes=_Field("minutes", 0, 59).numbers(minutes),
        hours=_Field("hours", 0, 23).numbers(hours),
        days=None if days == ANY else _Field("day of month", 1, 31, last=True).numbers(days),
        months=_Field("month", 1, 12, MONTHS).numbers(months),
        weekdays=(
            None if weekdays == ANY else _Field("day of week", 1, 7, WEEKDAYS).numbers(weekdays)
        ),
        years=_Field("year", *YEARS).numbers(years),
        zone=zone,
    )


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    least: int
    most: int
    names: tuple[str, ...] = ()
    last: bool = False

    def numbers(self, text: str) -> frozenset[int]:
        return frozenset(number for part in text.split(",") for number in self._part(part))

    def _part(self, text: str) -> range:
        if self.last and text == LAST:
            return range(1)
        span, slash, step = text.partition("/")
        first, dash, end = span.partition("-")
        try:
            if span == "*":
                start, stop = self.least, self.most
            else:
                start = self._number(first)
                stop = self._number(end) if dash else (self.most if slash else start)
            every = int(step) if slash else 1
        except ValueError:
            raise self._refused(text) from None
        if not self.least <= start <= stop <= self.most or every < 1:
            raise self._refused(text)
        return range(start, stop + 1, every)

    def _number(self, text: str) -> int:
        short = text.capitalize()
        return self.names.index(short) + 1 if short in self.names else int(text)

    def _refused(self, text: str) -> InvalidValue:
        # W, # and, for weekdays, L are AWS's too, and not run here.
        return InvalidValue(
            expected=f"`*`, numbers {self.least} to {self.most}, ranges and steps "
            f"as the {self.name} of cron()",
            found=shown(text),
        )
