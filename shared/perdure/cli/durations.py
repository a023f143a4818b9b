"""Durations as an option of a command."""

from __future__ import annotations

from typing import Any, Final

import click

from perdure.api.durations import milliseconds
from perdure.kernel.errors import InvalidValue


class Duration(click.ParamType[int]):
    """A duration in milliseconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return milliseconds."""
        if isinstance(value, int):
            return value
        try:
            return milliseconds(value)
        except InvalidValue:
            self.fail(f"{value!r} is no duration such as 10s, 1m or 2h", param, ctx)


DURATION: Final = Duration()
