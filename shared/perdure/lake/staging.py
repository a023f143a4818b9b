"""Staging: the commands of one tick, applied in their order to a state that stays as it was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from perdure.kernel import limits
from perdure.kernel.batch import StoredCommand
from perdure.kernel.component import ComponentType, Registry
from perdure.kernel.drain import Failure
from perdure.kernel.errors import InvalidValue, PerdureError, Refused, code_of
from perdure.kernel.ids import EntityId, TableId
from perdure.kernel.ids import Sequence as CommandSequence
from perdure.lake.archetype import Shape
from perdure.lake.entity import NOWHERE, WITH_VALUES, Entity, Kind, changed
from perdure.lake.materialize import failures
from perdure.lake.state import Rows, WorldState

_REJECTING: Final = (Refused, LookupError, TypeError, ValueError)
_NO_VALUES: Final[Mapping[str, Any]] = {}


@dataclass(frozen=True, slots=True)
class Applied:
    """What became of a list of commands: each is in exactly one of the four."""

    applied: list[CommandSequence] = field(default_factory=list)
    rejected: list[Failure] = field(default_factory=list)
    retryable: list[Failure] = field(default_factory=list)
    not_reached: list[CommandSequence] = field(default_factory=list)


class Staging:
    """A tick's changes on top of the state before it; :meth:`state` is the sum of both.

    Commands may come all at once or in parts: the result is that of one by one, in order. A
    command that fails leaves nothing behind.
    """

    def __init__(self, before: WorldState, registry: Registry) -> None:
        self._before = before
        self._registry = registry
        self._touched: dict[int, Entity] = {}

    def apply(
        self, commands: Sequence[StoredCommand], *, stop_on_retryable: bool = True
    ) -> Applied:
        """Apply commands in order and say what became of each.

        LookupError, TypeError, ValueError and every Refused reject a command; another
        Exception makes it retryable and, if asked, stops before the next one. A BaseException
        that is none of these passes through; this staging is then to be thrown away.
        """
        result = Applied()
        kinds, unfit = self._materialized(commands)
        subjects = [_subject(command) for command in commands]
        entities = self._found(subjects)
        for index, (command, kind, entity_id) in enumerate(
            zip(commands, kinds, subjects, strict=True)
        ):
            error = unfit.get(index)
            if error is None:
                entity = self._touched.get(entity_id) or entities[index]
                values = command.operation.get("components", _NO_VALUES)
                try:
                    self._touched[entity_id] = changed(entity_id, entity, values, kind)
                except Refused as refusal:
                    error = refusal
            if error is None:
                result.applied.append(command.sequence)
            elif isinstance(error, _REJECTING):
                result.rejected.append(_failure(command, error))
            else:
                result.retryable.append(_failure(command, error))
                if stop_on_retryable:
                    result.not_reached.extend(each.sequence for each in commands[index + 1 :])
                    break
        return result

    def state(self) -> WorldState:
        """Return the state with everything that was applied so far."""
        gone: dict[TableId, list[int]] = {}
        arrived: dict[TableId, tuple[Shape, list[int], list[Entity]]] = {}
        for entity_id in sorted(self._touched):
            entity = self._touched[entity_id]
            shape, values, home = entity
            left = None if home is None else self._before.ordered[home[0]].shape.table
            if left is not None and (shape is None or shape.table != left):
                gone.setdefault(left, []).append(entity_id)
            if shape is not None and (values or shape.table != left):
                _, ids, entities = arrived.setdefault(shape.table, (shape, [], []))
                ids.append(entity_id)
                entities.append(entity)
        return self._before.merged(
            {table: np.array(ids, np.int64) for table, ids in gone.items()},
            [Rows(shape, self._table(shape, ids, each)) for shape, ids, each in arrived.values()],
        )

    def _materialized(
        self, commands: Sequence[StoredCommand]
    ) -> tuple[list[Kind], dict[int, Exception]]:
        """Return each command's kind and, by index, why values cannot be materialized."""
        kinds, members = _kinds(commands)
        unfit: dict[int, Exception] = {}
        for kind, indexes in members:
            if kind.operation not in WITH_VALUES:
                continue
            types: list[ComponentType] = []
            for name, fingerprint in kind.named.items():
                errors: Mapping[int, Exception]
                try:
                    model = self._registry.exact(name, fingerprint or "")
                except Refused as unknown:
                    errors = dict.fromkeys(range(len(indexes)), unknown)
                else:
                    types.append(model.component)
                    stored = [commands[each].operation["components"][name] for each in indexes]
                    errors = failures(model, stored)
                for place, error in errors.items():
                    unfit.setdefault(indexes[place], error)
            kind.types = tuple(types)
        return kinds, unfit

    def _found(self, subjects: Sequence[EntityId]) -> list[Entity]:
        """Return the entities as the state before has them."""
        homes, rows = self._before.homes(np.array(subjects, np.int64))
        shapes = [each.shape for each in self._before.ordered]
        return [
            NOWHERE if home < 0 else Entity(shapes[home], _NO_VALUES, (home, row))
            for home, row in zip(homes.tolist(), rows.tolist(), strict=True)
        ]

    def _table(self, shape: Shape, ids: list[int], entities: list[Entity]) -> pa.Table:
        columns = [pa.array(ids, pa.int64())]
        for component, field_name, column in shape.fields():
            kind = shape.schema.field(column).type
            given = [each.values.get(component) for each in entities]
            kept = [index for index, value in enumerate(given) if value is None]
            values = [None if each is None else each[field_name] for each in given]
            array = pa.array(values, kind)
            if kept:
                mask = np.zeros(len(given), np.bool_)
                mask[kept] = True
                borrowed = self._borrowed(column, [entities[each].home for each in kept])
                array = pc.replace_with_mask(array, pa.array(mask), borrowed)
            columns.append(array)
        return pa.Table.from_arrays(columns, schema=shape.schema)

    def _borrowed(self, column: str, homes: Sequence[tuple[int, int] | None]) -> pa.Array:
        """Return the values of a column that entities keep, wherever they come from."""
        places, rows = np.array(homes, np.int64).T
        parts, order = [], []
        for place in np.unique(places).tolist():
            (here,) = np.nonzero(places == place)
            parts.append(self._before.ordered[place].array(column).take(pa.array(rows[here])))
            order.append(here)
        back = np.argsort(np.concatenate(order))
        return pa.concat_arrays(parts).take(pa.array(back))


def _kinds(commands: Sequence[StoredCommand]) -> tuple[list[Kind], list[tuple[Kind, list[int]]]]:
    """Return the kind of each command, and for each kind the commands of it."""
    known: dict[tuple[Any, ...], tuple[Kind, list[int]]] = {}
    spelled: dict[int, tuple[tuple[str, str], ...]] = {}
    kinds = []
    for index, command in enumerate(commands):
        operation, types = command.operation, command.types
        name = operation.get("operation")
        named = tuple(operation.get("components", ()))
        # Spelled once for all commands of a batch, which share the object.
        fingerprints = spelled.get(id(types))
        if fingerprints is None:
            fingerprints = spelled[id(types)] = tuple(sorted(types.items()))
        key = (name, named, fingerprints)
        if key not in known:
            known[key] = Kind(name, {each: types.get(each) for each in named}), []
        kind, members = known[key]
        members.append(index)
        kinds.append(kind)
    return kinds, list(known.values())


def _subject(command: StoredCommand) -> EntityId:
    reserved = command.entity_id
    return EntityId(command.operation["entity_id"]) if reserved is None else reserved


def _failure(command: StoredCommand, error: Exception) -> Failure:
    if isinstance(error, PerdureError):
        code = error.code
    elif isinstance(error, _REJECTING):
        code = InvalidValue.code
    else:
        code = code_of(type(error))
    detail = str(error) or type(error).__name__
    return Failure(command.sequence, code, detail[: limits.ERROR_DETAIL_CHARACTERS_MAX])
