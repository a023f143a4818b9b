"""Durations as people write them: 500ms, 10s, 1m, 2h, 1d."""

from __future__ import annotations

import re
from typing import Final

from perdure.kernel.errors import InvalidValue, shown

_WRITTEN: Final = re.compile(r"(\d{1,12})(ms|s|m|h|d)", re.ASCII)
_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def milliseconds(text: str) -> int:
    """Read a duration. Raises InvalidValue."""
    found = _WRITTEN.fullmatch(text)
    if found is None:
        raise InvalidValue(expected="a duration such as 10s, 1m or 2h", found=shown(text))
    return int(found[1]) * _MS[found[2]]


def every_given(every: str | None, every_ms: int | None) -> int | None:
    """Return how often a world is to tick by itself, said in either way. Raises InvalidValue."""
    if every is not None and every_ms is not None:
        raise InvalidValue(expected="`every` or `every_ms`", found="both")
    return every_ms if every is None else milliseconds(every)
