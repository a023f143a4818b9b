"""Durations as people write them: 500ms, 10s, 1m, 2h, 1d."""

from __future__ import annotations

import re
from typing import Final, Protocol

from perdure.kernel.errors import InvalidValue
from perdure.kernel.pace import MissedTicks
from perdure.kernel.shown import shown

_WRITTEN: Final = re.compile(r"(\d{1,12})(ms|s|m|h|d)", re.ASCII)
_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def milliseconds(text: str) -> int:
    """Read a duration. Raises InvalidValue."""
    found = _WRITTEN.fullmatch(text)
    if found is None:
        raise InvalidValue(expected="a duration such as 10s, 1m or 2h", found=shown(text))
    return int(found[1]) * _MS[found[2]]


class Paced(Protocol):
    """Words that say how often a world is to tick by itself."""

    @property
    def every(self) -> str | None: ...
    @property
    def every_ms(self) -> int | None: ...
    @property
    def missed(self) -> MissedTicks | None: ...


def pace_given(body: Paced) -> tuple[int | None, MissedTicks]:
    """Return how often a world is to tick by itself, and what becomes of ticks that it missed.

    Raises InvalidValue.
    """
    if body.every is not None and body.every_ms is not None:
        raise InvalidValue(expected="`every` or `every_ms`", found="both")
    every_ms = body.every_ms if body.every is None else milliseconds(body.every)
    if body.missed is not None and every_ms is None:
        raise InvalidValue(expected="`every` or `every_ms` beside `missed`", found="neither")
    return every_ms, body.missed or "coalesce"
