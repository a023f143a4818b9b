"""Figures: medians with their spread, the floor measured in the same rounds, and the budget."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal, Self

Timed = Callable[[], Awaitable[float]]
"""Measures once and returns the figure: a rate, milliseconds, a count."""


@dataclass(frozen=True)
class Sample:
    """What one thing came to, round by round."""

    values: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def low(self) -> float:
        return min(self.values)

    @property
    def high(self) -> float:
        return max(self.values)

    def over(self, floor: Sample) -> Sample:
        """Return the ratio to a floor, round by round: both were measured in turn."""
        return Sample(tuple(a / b for a, b in zip(self.values, floor.values, strict=True)))

    def spelled(self) -> dict[str, Any]:
        return {
            "median": self.median,
            "min": self.low,
            "max": self.high,
            "rounds": len(self.values),
        }


@dataclass(frozen=True)
class Budget:
    """What a figure, or its ratio to the floor, should be."""

    bound: float
    of: Literal["ratio", "figure"] = "ratio"
    at_least: bool = False

    def met(self, value: float) -> bool:
        return value >= self.bound if self.at_least else value <= self.bound

    def __str__(self) -> str:
        return f"{'≥' if self.at_least else '≤'} {self.bound:,g}{' times' * (self.of == 'ratio')}"


@dataclass(frozen=True)
class Figure:
    """One line of the report. ``floor`` is "the same" elsewhere, or bare code doing the like."""

    name: str
    unit: str
    measured: Sample
    floor: Sample | None = None
    floor_name: str = ""
    budget: Budget | None = None

    @property
    def ratio(self) -> Sample | None:
        return None if self.floor is None else self.measured.over(self.floor)

    @property
    def is_met(self) -> bool | None:
        """Whether the budget was met in the median; None without a budget."""
        if self.budget is None:
            return None
        held = self.ratio if self.budget.of == "ratio" else self.measured
        assert held is not None, "a budget on a ratio needs a floor"
        return self.budget.met(held.median)

    def spelled(self) -> dict[str, Any]:
        ratio = self.ratio
        return {
            "name": self.name,
            "unit": self.unit,
            **self.measured.spelled(),
            "floor": None
            if self.floor is None
            else {"name": self.floor_name, **self.floor.spelled()},
            "ratio": None if ratio is None else ratio.spelled(),
            "budget": None if self.budget is None else str(self.budget),
            "is_met": self.is_met,
        }


async def in_turn(rounds: int, *timed: Timed, warm_up: bool = True) -> list[Sample]:
    """Measure several things round by round, so that a busy moment strikes all of them.

    Every second round goes backwards, so that none always has what another left behind.
    """
    if warm_up:
        for each in timed:
            await each()
    values: list[list[float]] = [[] for _ in timed]
    turns = list(zip(timed, values, strict=True))
    for _ in range(rounds):
        for each, held in turns:
            gc.collect()
            held.append(await each())
        turns.reverse()
    return [Sample(tuple(held)) for held in values]


def counted(value: float) -> Sample:
    """Return what was counted once, and comes to the same every time."""
    return Sample((value,))


class Watch:
    """Times a ``with`` block."""

    def __enter__(self) -> Self:
        self._started = time.perf_counter()
        self.seconds = 0.0
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = time.perf_counter() - self._started

    @property
    def ms(self) -> float:
        return self.seconds * 1e3
