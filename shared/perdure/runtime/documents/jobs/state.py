"""State of a job in its process: what is stored of it, and what is held back for a while."""

from __future__ import annotations

import copy
from typing import Any

from perdure.kernel.documents.content import base, delta
from perdure.kernel.documents.jobs.diff import Ops, ops_between
from perdure.kernel.documents.jobs.take import JobState
from perdure.kernel.documents.jobs.work import StateChange
from perdure.kernel.errors import InvalidValue
from perdure.kernel.shown import text_of
from perdure.runtime.documents.jobs.declaration import CheckpointWhen, Shape


class KeptState:
    """A job's state: the value that its function sees may be ahead of what the store has.

    What is held goes into the store with the next change that is not held, as one delta or, if
    one of them asked for that, as a base.
    """

    def __init__(self, shape: Shape, stored: JobState, checkpoint_when: CheckpointWhen) -> None:
        self.value = stored.value
        """JSON, as it is visible."""

        self._shape = shape
        self._version = stored.version
        self._revision = stored.revision
        self._deltas = stored.deltas
        self._checkpoint_when = checkpoint_when
        self._held: Ops = []
        self._is_base = False

    def read(self) -> Any:
        """Return the state as its function takes it: a copy."""
        return self._shape.read(copy.deepcopy(self.value))

    def spelled(self, value: Any) -> Any:
        """Return the JSON of a state. Raises InvalidValue kinds."""
        return self._shape.spelled(value)

    @property
    def is_held(self) -> bool:
        """Say whether the store has less than the function sees."""
        return bool(self._held)

    def hold(self, value: Any) -> None:
        """Let a value be visible without the store. Raises InvalidValue kinds, TooLarge."""
        ops = self._ops_to(value)
        if ops:
            is_base = self._asks_base(value, ops)
            self._content(value, self._held + ops, is_base=is_base)  # it must be storable later
            self._held, self._is_base, self.value = self._held + ops, is_base, value

    def change_to(self, value: Any) -> StateChange | None:
        """Return what the store must be told for a value to be visible; None if it has it."""
        ops = self._ops_to(value)
        if not ops:
            return self.held
        return self._content(value, self._held + ops, is_base=self._asks_base(value, ops))

    @property
    def held(self) -> StateChange | None:
        """What the store must be told for it to have what is visible; None if it has."""
        if not self._held:
            return None
        return self._content(self.value, self._held, is_base=self._is_base)

    def stored(self, value: Any, change: StateChange) -> None:
        """Take in that the store has a value."""
        self.value = value
        self._revision = change.revision + 1
        self._deltas = 0 if change.content.kind == "base" else self._deltas + 1
        self._held, self._is_base = [], False

    def _ops_to(self, value: Any) -> Ops:
        try:
            return ops_between(self.value, value)
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidValue(
                expected="a state of JSON, not too deep", found=text_of(error)
            ) from error

    def _asks_base(self, value: Any, ops: Ops) -> bool:
        asked = self._checkpoint_when(copy.deepcopy(value), copy.deepcopy(ops), self._deltas)
        return self._is_base or bool(asked)

    def _content(self, value: Any, ops: Ops, *, is_base: bool) -> StateChange:
        made = base(self._version, value) if is_base else delta(self._version, ops)
        return StateChange(made, self._revision)
