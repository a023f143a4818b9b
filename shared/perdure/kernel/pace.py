"""Pace: the words of a world that ticks by itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, get_args

from perdure.kernel.ids import Instant

MissedTicks = Literal["coalesce", "catch_up", "skip"]
"""What becomes of times of a schedule that no tick served."""

MISSED_TICKS: Final[tuple[MissedTicks, ...]] = get_args(MissedTicks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduled:
    """Which time of its world's schedule a tick served, and how many had none of their own."""

    serves: Instant
    policy: MissedTicks
    missed: int = 0
