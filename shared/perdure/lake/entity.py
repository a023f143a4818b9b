"""Entities under change: what each operation makes of one, given what it is by then."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any, Final

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

Entity = tuple[Shape | None, Values, int, int]
"""An entity that something touched, on top of the state before: (shape, values, home, row).

``shape`` is None when it is dead now; ``values`` are the components that were set since;
``home`` is the place of the archetype in which the state before has it, -1 for none, and
``row`` its row there. Invariant: a component of ``shape`` that is not in ``values`` is unchanged
at ``home``. A plain tuple, as ten thousand of them are made in a tick.
"""

NO_VALUES: Final[Values] = {}
NOWHERE: Final[Entity] = (None, NO_VALUES, -1, -1)


@dataclass(slots=True, eq=False)
class Kind:
    """Commands of one operation on the same components: what is equal is decided once.

    ``named`` maps the components they name to their fingerprints; ``types`` are those that
    come with values, as they are registered; ``indexes`` say which commands they are, and
    ``values`` what comes with them; ``columns`` has the same by component and field, once all of
    it is known to be in order; ``shapes`` remembers what became of which table.
    """

    operation: Any
    named: Mapping[str, str | None]
    indexes: list[int] = field(default_factory=list)
    values: list[Values] = field(default_factory=list)
    types: tuple[ComponentType, ...] = ()
    columns: Mapping[str, Mapping[str, list[Any]]] | None = None
    shapes: dict[TableId | None, Shape] = field(default_factory=dict)

    def is_within(self, shape: Shape) -> bool:
        """Say whether an entity of this shape has all the components that are named."""
        return self.named.items() <= shape.fingerprints.items()

    def shape(self, before: Shape | None, types: Iterable[ComponentType]) -> Shape:
        """Return the shape of ``types``, that one of shape ``before`` has now."""
        table = None if before is None else before.table
        if table not in self.shapes:
            self.shapes[table] = Shape(tuple(types))
        return self.shapes[table]


def changed(entity_id: int, entity: Entity, values: Values, kind: Kind) -> Entity:
    """Return the entity after one command of ``kind``. Raises Refused; then nothing changed."""
    shape, held, home, row = entity
    if kind.operation == "spawn":
        if shape is not None:
            raise EntityExists(expected="an id of no living entity", found=f"entity {entity_id}")
        return kind.shape(None, kind.types), values, home, row
    operation = _OPERATIONS.get(kind.operation)
    if operation is None:
        raise UnknownOperation(
            expected=f"one of spawn, {', '.join(_OPERATIONS)}", found=repr(kind.operation)
        )
    if shape is None:
        raise EntityNotFound(expected="a living entity", found=f"none of id {entity_id}")
    after, values = operation(shape, held, values, kind)
    return after, values, home, row


def changed_alike(
    kind: Kind,
    values: Sequence[Values],
    homes: Sequence[int],
    rows: Sequence[int],
    shapes: Sequence[Shape],
) -> Iterator[Entity] | None:
    """Return what :func:`changed` makes of different entities that nothing touched before.

    ``shapes`` are those of the archetypes that ``homes`` are places of. None when the entities
    must be asked one by one, as they may differ in what becomes of them.
    """
    places = set(homes)
    match kind.operation:
        case "spawn" if places == {-1}:
            return zip(repeat(kind.shape(None, kind.types)), values, homes, rows, strict=False)
        case "update" if -1 not in places and all(kind.is_within(shapes[each]) for each in places):
            return zip(map(shapes.__getitem__, homes), values, homes, rows, strict=True)
        case "despawn" if -1 not in places:
            return zip(repeat(None), repeat(NO_VALUES), homes, rows, strict=False)
        case _:
            return None


def _despawned(
    _shape: Shape, _held: Values, _values: Values, _kind: Kind
) -> tuple[Shape | None, Values]:
    return None, NO_VALUES


def _updated(shape: Shape, held: Values, values: Values, kind: Kind) -> tuple[Shape, Values]:
    _check_within(shape, kind)
    return shape, {**held, **values} if held else values


def _extended(shape: Shape, held: Values, values: Values, kind: Kind) -> tuple[Shape, Values]:
    present = kind.named.keys() & shape.fingerprints.keys()
    if present:
        raise ComponentPresent(
            expected="components that the entity lacks", found=", ".join(sorted(present))
        )
    return kind.shape(shape, (*shape.types, *kind.types)), {**held, **values}


def _reduced(shape: Shape, held: Values, _values: Values, kind: Kind) -> tuple[Shape, Values]:
    _check_within(shape, kind)
    rest = (each for each in shape.types if each.name not in kind.named)
    kept = {name: value for name, value in held.items() if name not in kind.named}
    return kind.shape(shape, rest), kept


def _check_within(shape: Shape, kind: Kind) -> None:
    if kind.is_within(shape):
        return
    absent = ", ".join(
        f"{name}@{wanted[:12]}" if wanted and name in shape.fingerprints else name
        for name, wanted in kind.named.items()
        if shape.fingerprints.get(name) != wanted
    )
    held = ", ".join(f"{name}@{each[:12]}" for name, each in shape.fingerprints.items())
    raise ComponentAbsent(expected=f"an entity with {absent}", found=f"one with {held or 'none'}")


_OPERATIONS: Final[
    Mapping[Any, Callable[[Shape, Values, Values, Kind], tuple[Shape | None, Values]]]
] = {
    "despawn": _despawned,
    "update": _updated,
    "add_components": _extended,
    "remove_components": _reduced,
}

WITH_VALUES: Final = ("spawn", "update", "add_components")
