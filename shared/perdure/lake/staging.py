"""Staging: the commands of one tick, applied in their order to a state that stays as it was."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from perdure.kernel import limits
from perdure.kernel.batch import StoredCommand
from perdure.kernel.component import Registry
from perdure.kernel.errors import InvalidValue, PerdureError, Refused, code_of
from perdure.kernel.ids import EntityId
from perdure.kernel.ids import Sequence as CommandSequence
from perdure.kernel.settle import Failure
from perdure.lake.entity import NO_VALUES, NOWHERE, Entity, Kind, Values, changed, changed_alike
from perdure.lake.materialize import kinds_of, unfit
from perdure.lake.overlay import merged
from perdure.lake.state import WorldState

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
    commands: Sequence[StoredCommand]
    values: Sequence[Values]
    subjects: Sequence[EntityId]
    homes: Sequence[int]
    rows: Sequence[int]
    unfit: Sequence[Exception | None]


class Staging:
    """A tick's changes on top of the state before it; :meth:`state` is the sum of both.

    Commands may come all at once or in parts: the result is that of one by one, in order. A
    command that fails leaves nothing behind.
    """

    def __init__(self, before: WorldState, registry: Registry) -> None:
        self._before = before
        self._registry = registry
        self._shapes = [each.shape for each in before.ordered]
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
        reached = 0
        for run in self._runs(commands):
            if self._staged_alike(run):
                result.applied.extend([each.sequence for each in run.commands])
                reached += len(run.commands)
                continue
            for command, error in zip(run.commands, self._staged(run), strict=True):
                reached += 1
                if error is None:
                    result.applied.append(command.sequence)
                elif isinstance(error, _REJECTING):
                    result.rejected.append(_failure(command, error))
                else:
                    result.retryable.append(_failure(command, error))
                    if stop_on_retryable:
                        result.not_reached.extend(each.sequence for each in commands[reached:])
                        return result
        return result

    def state(self) -> WorldState:
        """Return the state with everything that was applied so far."""
        return merged(self._before, self._touched)

    def _runs(self, commands: Sequence[StoredCommand]) -> Iterator[_Run]:
        values = [command.operation.get("components", NO_VALUES) for command in commands]
        kinds = kinds_of(commands, values)
        errors = unfit(kinds, self._registry)
        subjects = [
            EntityId(operation["entity_id"]) if reserved is None else reserved
            for _, reserved, operation, _ in commands
        ]
        homes, rows = (each.tolist() for each in self._before.homes(np.array(subjects, np.int64)))
        first = 0
        while first < len(kinds):
            kind, last = kinds[first], first + 1
            while last < len(kinds) and kinds[last] is kind:
                last += 1
            here = slice(first, last)
            yield _Run(
                kind,
                commands[here],
                values[here],
                subjects[here],
                homes[here],
                rows[here],
                errors[here],
            )
            first = last

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
        self._touched.update(zip(run.subjects, entities, strict=True))
        return True

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


def _failure(command: StoredCommand, error: Exception) -> Failure:
    if isinstance(error, PerdureError):
        code = error.code
    elif isinstance(error, _REJECTING):
        code = InvalidValue.code
    else:
        code = code_of(type(error))
    detail = str(error) or type(error).__name__
    return Failure(command.sequence, code, detail[: limits.ERROR_DETAIL_CHARACTERS_MAX])
