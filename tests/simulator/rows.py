"""What worlds hold, as plain dictionaries: operations, processors and rows told a second time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tests.simulator.records import Json, expect

Entity = Mapping[str, Mapping[str, object]]
"""Fields by component, both by the names that columns have."""

State = dict[int, Entity]

IN_TICK_FIRST = 2**52


def refusal(state: State, command: Json, entity_id: int) -> str | None:
    """Return the code with which a command is rejected, None if it can be applied."""
    entity = state.get(entity_id)
    operation = command["operation"]
    if operation == "spawn":
        return "entity_exists" if entity is not None else None
    if entity is None:
        return "entity_not_found"
    named = {name.lower() for name in command.get("components", ())}
    if operation == "add_components":
        return "component_present" if named & entity.keys() else None
    return "component_absent" if named - entity.keys() else None


def applied(state: State, command: Json, entity_id: int) -> None:
    """Apply one command to a state."""
    operation = command["operation"]
    if operation == "despawn":
        del state[entity_id]
        return
    entity = dict(state.get(entity_id, {}))
    given = command.get("components", ())
    if operation == "remove_components":
        for name in given:
            entity.pop(name.lower())
    else:
        entity |= {name.lower(): given[name] for name in given}
    state[entity_id] = entity


@dataclass(slots=True)
class Births:
    """What processors made and ended in one tick."""

    made: list[Entity] = field(default_factory=list)
    ended: list[int] = field(default_factory=list)


def processed(state: State, tick: int) -> Births:
    """Run the processors of the simulated application on a state."""
    births = Births()
    for entity_id, entity in list(state.items()):
        if "place" in entity and "speed" in entity:
            place, speed = entity["place"], entity["speed"]
            moved = {axis: place[axis] + speed[axis] for axis in ("x", "y")}  # type: ignore[operator]
            state[entity_id] = {**entity, "place": moved}
    for entity_id, entity in list(state.items()):
        if "seed" in entity:
            left = entity["seed"]["left"] - 1  # type: ignore[operator]
            state[entity_id] = {**entity, "seed": {"left": left}}
            if left % 2 == 0:
                births.made.append({"place": {"x": entity_id, "y": tick}})
            if left <= 0:
                births.ended.append(entity_id)
    return births


@dataclass(frozen=True, slots=True)
class Row:
    """One row that a tick wrote."""

    entity_id: int
    is_active: bool
    entity: Entity


def rows_of(columns: Mapping[str, list[object]]) -> list[Row]:
    """Read rows from columns named ``<component>__<field>``."""
    ids = columns["entity_id"]
    alive = columns.get("is_active", [True] * len(ids))
    rows = []
    for index, entity_id in enumerate(ids):
        entity: dict[str, dict[str, object]] = {}
        for name, values in columns.items():
            component, _, member = name.partition("__")
            if member:
                entity.setdefault(component, {})[member] = values[index]
        rows.append(Row(int(entity_id), bool(alive[index]), entity))  # type: ignore[call-overload]
    return rows


def overlaid(state: State, rows: Iterable[Row]) -> State:
    """Return a state after the rows of one tick: the same entity, active, wins."""
    rows = list(rows)
    after = dict(state)
    for row in rows:
        if not row.is_active:
            after.pop(row.entity_id, None)
    for row in rows:
        if row.is_active:
            after[row.entity_id] = row.entity
    return after


def settled_births(expected: State, births: Births, visible: State, first: int) -> int:
    """Add to a state what processors made, and return the next id of their range.

    Which of them got which id is taken from what is visible: only that ids follow each other
    from ``first`` on is promised.
    """
    made = list(births.made)
    last = first + len(made)
    for entity_id in range(first, last):
        entity = visible.get(entity_id)
        expect(entity in made, "I3", "entity {} is {}, made were {}", entity_id, entity, made)
        made.remove(entity)  # type: ignore[arg-type]
        expected[entity_id] = entity  # type: ignore[assignment]
    for entity_id in births.ended:
        expected.pop(entity_id, None)
    return last
