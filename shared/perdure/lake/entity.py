"""Entities under change: what each operation makes of one, given what it is by then."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, NoReturn

from perdure.kernel.component import ComponentType
from perdure.kernel.errors import (
    ComponentAbsent,
    ComponentPresent,
    EntityExists,
    EntityNotFound,
    UnknownOperation,
)
from perdure.kernel.ids import TableId
from perdure.lake.archetype import Shape

Values = Mapping[str, Mapping[str, Any]]
"""Component values as they are stored: component, field, value."""


class Entity(NamedTuple):
    """An entity that something touched, on top of the state before.

    ``shape`` is None when it is dead now; ``values`` are the components that were set since;
    ``home`` is where the state before has it: (place of its archetype, row), None for nowhere.
    Invariant: a component of ``shape`` that is not in ``values`` is unchanged at ``home``.
    """

    shape: Shape | None
    values: Values
    home: tuple[int, int] | None


NOWHERE: Final = Entity(None, {}, None)


@dataclass(slots=True)
class Kind:
    """Commands of one operation on the same components: what is equal is decided once.

    ``named`` maps the components they name to their fingerprints; ``types`` are those that
    come with values, as they are registered; ``shapes`` remembers what became of which table.
    """

    operation: Any
    named: Mapping[str, str | None]
    types: tuple[ComponentType, ...] = ()
    shapes: dict[TableId | None, Shape] = field(default_factory=dict)

    def shape(self, before: Shape | None, types: Callable[[], Iterable[ComponentType]]) -> Shape:
        table = None if before is None else before.table
        if table not in self.shapes:
            self.shapes[table] = Shape(tuple(types()))
        return self.shapes[table]


def changed(entity_id: int, entity: Entity, values: Values, kind: Kind) -> Entity:
    """Return the entity after one command of ``kind``. Raises Refused; then nothing changed."""
    operation = _OPERATIONS.get(kind.operation)
    if operation is None:
        raise UnknownOperation(
            expected=f"one of {', '.join(_OPERATIONS)}", found=repr(kind.operation)
        )
    if entity.shape is None:
        if operation is not _spawned:
            raise EntityNotFound(expected="a living entity", found=f"none of id {entity_id}")
    elif operation is _spawned:
        raise EntityExists(expected="an id of no living entity", found=f"entity {entity_id}")
    return operation(entity, values, kind)


def _spawned(entity: Entity, values: Values, kind: Kind) -> Entity:
    return Entity(kind.shape(None, lambda: kind.types), values, entity.home)


def _despawned(entity: Entity, _values: Values, _kind: Kind) -> Entity:
    return Entity(None, {}, entity.home)


def _updated(entity: Entity, values: Values, kind: Kind) -> Entity:
    shape, held, home = entity
    assert shape is not None
    if not kind.named.items() <= shape.fingerprints.items():
        _refuse_absent(shape, kind)
    return Entity(shape, {**held, **values} if held else values, home)


def _with_components(entity: Entity, values: Values, kind: Kind) -> Entity:
    shape, held, home = entity
    assert shape is not None
    present = kind.named.keys() & shape.fingerprints.keys()
    if present:
        raise ComponentPresent(
            expected="components that the entity lacks", found=", ".join(sorted(present))
        )
    larger = kind.shape(shape, lambda: (*shape.types, *kind.types))
    return Entity(larger, {**held, **values}, home)


def _without_components(entity: Entity, _values: Values, kind: Kind) -> Entity:
    shape, held, home = entity
    assert shape is not None
    for name, fingerprint in kind.named.items():
        if shape.fingerprints.get(name) != (fingerprint or shape.fingerprints.get(name, "")):
            _refuse_absent(shape, kind)
    smaller = kind.shape(
        shape, lambda: (each for each in shape.types if each.name not in kind.named)
    )
    kept = {name: value for name, value in held.items() if name not in kind.named}
    return Entity(smaller, kept, home)


def _refuse_absent(shape: Shape, kind: Kind) -> NoReturn:
    absent = ", ".join(
        f"{name}@{fingerprint[:12]}" if fingerprint and name in shape.fingerprints else name
        for name, fingerprint in kind.named.items()
        if shape.fingerprints.get(name) != fingerprint
    )
    held = ", ".join(f"{name}@{held[:12]}" for name, held in shape.fingerprints.items())
    raise ComponentAbsent(expected=f"an entity with {absent}", found=f"one with {held or 'none'}")


_OPERATIONS: Final[Mapping[Any, Callable[[Entity, Values, Kind], Entity]]] = {
    "spawn": _spawned,
    "despawn": _despawned,
    "update": _updated,
    "add_components": _with_components,
    "remove_components": _without_components,
}

WITH_VALUES: Final = ("spawn", "update", "add_components")
