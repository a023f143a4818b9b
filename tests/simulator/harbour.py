"""The application that simulated worlds run on; ``rows`` tells a second time what it does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import field_validator
from tests.simulator.loop import LIFE, Life

from perdure import App, Component
from perdure.runtime.compute import TickContext


class Place(Component):
    x: int
    y: int


class Speed(Component):
    x: int
    y: int


class Seed(Component):
    left: int


class Tag(Component):
    """Nothing but its presence."""


class Died(BaseException):
    """A process ended itself in the middle of a step."""


FAILS, KILLS = 1, 2


@dataclass(slots=True)
class Mood:
    """How likely commands and processors fail at this moment; one for each play."""

    kill: Callable[[Life], None]
    chance: Random
    fails: float = 0.0
    kills: float = 0.0
    processor_fails: float = 0.0
    current: ClassVar[Mood | None] = None


class Fickle(Component):
    """A component that a tick may fail on for now, or die of."""

    value: int

    @field_validator("value")
    @classmethod
    def tries(cls, value: int) -> int:
        mood, life = Mood.current, LIFE.get()
        if mood is None or not is_writer(life):
            return value
        if value == FAILS and mood.chance.random() < mood.fails:
            raise RuntimeError("not now")
        if value == KILLS and mood.chance.random() < mood.kills:
            mood.kill(life)
            raise Died
        return value


def is_writer(life: Life) -> bool:
    """Say whether a life is one that ticks."""
    return life.name.startswith("ticker")


def harbour() -> App:
    """Make the application anew: a process has one of its own."""
    app = App("harbour")
    for component in (Place, Speed, Seed, Tag, Fickle):
        app.component(component)

    @app.processor(Place, Speed, priority=1)
    def drift(rows: pa.Table, tick: TickContext) -> pa.Table:
        mood = Mood.current
        if mood is not None and mood.chance.random() < mood.processor_fails:
            raise RuntimeError("no wind")
        for axis in ("x", "y"):
            name = f"place__{axis}"
            moved = pc.add(rows.column(name), rows.column(f"speed__{axis}"))
            rows = rows.set_column(rows.schema.get_field_index(name), rows.field(name), moved)
        return rows

    @app.processor(Seed, priority=2)
    def grow(rows: pa.Table, tick: TickContext) -> pa.Table:
        left = pc.subtract(rows.column("seed__left"), 1)
        ids = rows.column("entity_id").to_pylist()
        for entity_id, rest in zip(ids, left.to_pylist(), strict=True):
            if rest % 2 == 0:
                tick.spawn(Place(x=entity_id, y=tick.number))
            if rest <= 0:
                tick.despawn(entity_id)
        return rows.set_column(
            rows.schema.get_field_index("seed__left"), rows.field("seed__left"), left
        )

    return app
