"""Small components, commands and states that the tests of the state share."""

from __future__ import annotations

import os

import pyarrow as pa
from pydantic import model_validator

from perdure.kernel.component import Component, Registry
from perdure.kernel.stored import StoredCommand
from perdure.lake.archetype import Shape
from perdure.lake.staging import Staging
from perdure.lake.state import EMPTY, Rows, WorldState


class Position(Component):
    x: float
    y: float


class Velocity(Component):
    dx: float


class Label(Component):
    text: str | None = None
    rank: int = 0
    is_new: bool = False


class Fragile(Component):
    """Breaks, on purpose, in every way a class of one's own can."""

    strength: int

    @model_validator(mode="after")
    def breaks(self):
        match self.strength:
            case 0:
                raise RuntimeError("the database is away")
            case -1:
                raise KeyError("missing")
            case -2:
                raise KeyboardInterrupt
            case -3:
                os._exit(17)
        return self


MODELS = (Position, Velocity, Label, Fragile)
REGISTRY = Registry(MODELS)
ORIGIN = {"x": 0.0, "y": 0.0}
STILL = {"dx": 0.0}
TYPES = {model.__name__: model.component.fingerprint for model in MODELS}


def command(sequence, operation, *, entity_id=None, types=TYPES):
    reserved = entity_id if operation["operation"] == "spawn" else None
    if operation["operation"] != "spawn" and entity_id is not None:
        operation = {**operation, "entity_id": entity_id}
    return StoredCommand(
        sequence=sequence,
        entity_id=reserved,
        operation=operation,
        types=types,
    )


def spawn(sequence, entity_id, **components):
    return command(sequence, {"operation": "spawn", "components": components}, entity_id=entity_id)


def despawn(sequence, entity_id):
    return command(sequence, {"operation": "despawn"}, entity_id=entity_id)


def update(sequence, entity_id, **components):
    return command(sequence, {"operation": "update", "components": components}, entity_id=entity_id)


def add(sequence, entity_id, **components):
    operation = {"operation": "add_components", "components": components}
    return command(sequence, operation, entity_id=entity_id)


def remove(sequence, entity_id, *names):
    operation = {"operation": "remove_components", "components": list(names)}
    return command(sequence, operation, entity_id=entity_id)


def contents(state: WorldState):
    """Return the state as {entity: {column: value}}; the columns tell the archetype."""
    held = {}
    for archetype in state.archetypes.values():
        assert archetype.ids.tolist() == sorted(archetype.ids.tolist())
        assert archetype.rows["entity_id"].to_pylist() == archetype.ids.tolist()
        assert all(column.num_chunks == 1 for column in archetype.rows.columns)
        for row in archetype.rows.to_pylist():
            entity_id = row.pop("entity_id")
            assert entity_id not in held, "an entity lives in one archetype"
            held[entity_id] = row
    return held


def stored(tables, tick):
    """Return what a tick wrote as it is read back: with the tick in every row."""
    return [
        Rows(
            Shape(each.types),
            each.rows.append_column("tick", pa.array([tick] * each.rows.num_rows, pa.int64())),
        )
        for each in tables
    ]


def after(*commands, state=EMPTY):
    """Return the state after commands, all of which are applied."""
    staging = Staging(state, REGISTRY)
    result = staging.apply(commands)
    assert not result.rejected
    assert not result.retryable
    return staging.state()
