"""Durations as people write them: 500ms, 10s, 1m, 2h, 1d."""

from __future__ import annotations

import re
from typing import Any, Final

import click

_WRITTEN: Final = re.compile(r"(\d{1,12})(ms|s|m|h|d)", re.ASCII)
_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


class Duration(click.ParamType[int]):
    """A duration in milliseconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return milliseconds."""
        if isinstance(value, int):
            return value
        found = _WRITTEN.fullmatch(value)
        if found is None:
            self.fail(f"{value!r} is no duration such as 10s, 1m or 2h", param, ctx)
        return int(found[1]) * _MS[found[2]]


DURATION: Final = Duration()
