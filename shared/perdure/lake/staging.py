"""Staging: the commands of one tick, applied in their order to a state that stays as it was."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final

import numpy as np

from perdure.kernel import limits
from perdure.kernel.columns import CommandColumns
from perdure.kernel.component import Registry
from perdure.kernel.errors import InvalidValue, PerdureError, Refused, code_of
from perdure.kernel.ids import EntityId
from perdure.kernel.ids import Sequence as CommandSequence
from perdure.kernel.settle import Failure
from perdure.kernel.stored import StoredBatch, StoredCommand
from perdure.lake.alike import Alike
from perdure.lake.entity import (
    NO_VALUES,
    NOWHERE,
    WITH_VALUES,
    Entity,
    Kind,
    Values,
    changed,
    changed_alike,
)
from perdure.lake.materialize import kinds_of, unfit
from perdure.lake.overlay import merged
from perdure.lake.spelled import spelled
from perdure.lake.state import WorldState

ALIKE_MIN: Final = 32
"""Commands of one kind in a row from which on they are held as columns."""

_REJECTING: Final = (Refused, LookupError, TypeError, ValueError)


@dataclass(frozen=True, slots=True)
class Applied:
    """What became of a list of commands: each is in exactly one of the four."""

    applied: list[CommandSequence] = field(default_factory=list)
    rejected: list[Failure] = field(default_factory=list)
    retryable: list[Failure] = field(default_factory=list)
    not_reached: list[CommandSequence] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Run:
    """Consecutive commands of one kind, and where the state before has their entities."""

    kind: Kind
    sequences: Sequence[CommandSequence]
    values: Sequence[Values]
    subjects: Sequence[EntityId]
    homes: Sequence[int]
    rows: Sequence[int]
    unfit: Sequence[Exception | None]
    start: int
    """How many commands of its kind came before."""

    @property
    def has_columns(self) -> bool:
        """Say whether its values are known by column: not if any of its kind, here or elsewhere, is unfit."""
        return self.kind.operation not in WITH_VALUES or self.kind.columns is not None

    def alike(self) -> Alike:
        """Return the run by columns, which it must have. All of it must fit."""
        here = slice(self.start, self.start + len(self.sequences))
        columns = {
            component: {field: held[here] for field, held in fields.items()}
            for component, fields in (self.kind.columns or {}).items()
        }
        return Alike(self.kind, self.subjects, self.homes, self.rows, lambda: self.values, columns)


class Staging:
    """A tick's changes on top of the state before it; :meth:`state` is the sum of both.

    Commands may come all at once or in parts: the result is that of one by one, in order. A
    command that fails leaves nothing behind.
    """

    def __init__(self, before: WorldState, registry: Registry, *, one_by_one: bool = False) -> None:
        """Begin with nothing changed. ``one_by_one`` is for a witness: it takes no shortcut."""
        self._one_by_one = one_by_one
        self._before = before
        self._registry = registry
        self._shapes = [each.shape for each in before.ordered]
        self._touched: dict[int, Entity] = {}
        self._alike: list[tuple[Alike, set[EntityId]]] = []
        self._held = set[EntityId]()
        """Entities of ``_alike``, of which ``_touched`` has none."""

    def apply(
        self, commands: Iterable[StoredCommand] | CommandColumns, *, stop_on_retryable: bool = True
    ) -> Applied:
        """Apply commands in order and say what became of each.

        LookupError, TypeError, ValueError and every Refused reject a command; another
        Exception makes it retryable and, if asked, stops before the next one. A BaseException
        that is none of these passes through; this staging is then to be thrown away.
        """
        if not isinstance(commands, CommandColumns):
            commands = CommandColumns.of(commands)
        result = Applied()
        reached = 0
        for run in self._runs(commands):
            self._spill(run.subjects)
            if not self._one_by_one and self._staged_alike(run):
                result.applied.extend(run.sequences)
                reached += len(run.sequences)
                continue
            for sequence, error in zip(run.sequences, self._staged(run), strict=True):
                reached += 1
                if error is None:
                    result.applied.append(sequence)
                elif isinstance(error, _REJECTING):
                    result.rejected.append(_failure(sequence, error))
                else:
                    result.retryable.append(_failure(sequence, error))
                    if stop_on_retryable:
                        result.not_reached.extend(commands.sequences[reached:])
                        return result
        return result

    def applied_whole(self, batch: StoredBatch) -> bool:
        """Apply a whole batch if it can be read by columns; else say so, having done nothing.

        Where it can, :meth:`apply` would apply every command of it.
        """
        read = spelled(batch, self._registry)
        if read is None:
            return False
        named = {each.name: each.fingerprint for each in read.types}
        kind = Kind(read.operation, named, types=read.types)
        subjects = set(read.subjects)
        homes, rows = self._before.homes(np.array(read.subjects, np.int64))
        where = (homes.tolist(), rows.tolist())
        if (
            len(subjects) < batch.size
            or not (self._held.isdisjoint(subjects) and self._touched.keys().isdisjoint(subjects))
            or not self._are_alike(kind, where[0])
        ):
            return False

        def values() -> Sequence[Values]:
            return [each["components"] for each in batch.operations]

        self._alike.append((Alike(kind, read.subjects, *where, values, read.columns), subjects))
        self._held |= subjects
        return True

    def _are_alike(self, kind: Kind, homes: Sequence[int]) -> bool:
        try:
            return changed_alike(kind, (), homes, (), self._shapes) is not None
        except Refused:
            return False

    def state(self) -> WorldState:
        """Return the state with everything that was applied so far."""
        return merged(self._before, self._touched, [each for each, _ in self._alike])

    def _runs(self, commands: CommandColumns) -> Iterator[_Run]:
        operations = commands.operations
        values = [operation.get("components", NO_VALUES) for operation in operations]
        kinds = kinds_of(commands, values)
        errors = unfit(kinds, self._registry)
        subjects = [
            EntityId(operation["entity_id"]) if reserved is None else reserved
            for reserved, operation in zip(commands.reserved, operations, strict=True)
        ]
        homes, rows = (each.tolist() for each in self._before.homes(np.array(subjects, np.int64)))
        first = 0
        seen = dict.fromkeys(kinds, 0)
        for kind, members in groupby(kinds):
            size = sum(1 for _ in members)
            here = slice(first, first + size)
            yield _Run(
                kind,
                commands.sequences[here],
                values[here],
                subjects[here],
                homes[here],
                rows[here],
                errors[here],
                seen[kind],
            )
            first += size
            seen[kind] += size

    def _staged_alike(self, run: _Run) -> bool:
        """Stage a run at once, if none of its commands can differ from the others."""
        subjects = set(run.subjects)
        if (
            len(subjects) < len(run.subjects)
            or not self._touched.keys().isdisjoint(subjects)
            or any(run.unfit)
        ):
            return False
        try:
            entities = changed_alike(run.kind, run.values, run.homes, run.rows, self._shapes)
        except Refused:
            return False
        if entities is None:
            return False
        if len(subjects) < ALIKE_MIN or not run.has_columns:
            self._touched.update(zip(run.subjects, entities, strict=True))
        else:
            self._alike.append((run.alike(), subjects))
            self._held |= subjects
        return True

    def _spill(self, subjects: Sequence[EntityId]) -> None:
        """Take entities one by one from now on, together with those that were alike to them."""
        if not self._held or self._held.isdisjoint(subjects):
            return
        kept = []
        for alike, held in self._alike:
            if held.isdisjoint(subjects):
                kept.append((alike, held))
                continue
            values = alike.values()
            where = (alike.homes, alike.rows, self._shapes)
            entities = changed_alike(alike.kind, values, *where)
            assert entities is not None, "it was asked before"
            self._touched.update(zip(alike.subjects, entities, strict=True))
            self._held -= held
        self._alike = kept

    def _staged(self, run: _Run) -> Iterator[Exception | None]:
        """Stage a run one by one, and yield why a command was not, or None."""
        where = zip(run.subjects, run.homes, run.rows, strict=True)
        for (entity_id, home, row), values, error in zip(where, run.values, run.unfit, strict=True):
            if error is not None:
                yield error
                continue
            entity = self._touched.get(entity_id)
            if entity is None:
                entity = NOWHERE if home < 0 else (self._shapes[home], NO_VALUES, home, row)
            try:
                self._touched[entity_id] = changed(entity_id, entity, values, run.kind)
            except Refused as refusal:
                yield refusal
            else:
                yield None


def _failure(sequence: CommandSequence, error: Exception) -> Failure:
    if isinstance(error, PerdureError):
        code = error.code
    elif isinstance(error, _REJECTING):
        code = InvalidValue.code
    else:
        code = code_of(type(error))
    detail = str(error) or type(error).__name__
    return Failure(sequence, code, detail[: limits.ERROR_DETAIL_CHARACTERS_MAX])
