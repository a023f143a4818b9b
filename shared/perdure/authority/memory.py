"""A store in memory, with a plan of the faults it is to show."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Final

from perdure.authority.store import RevisionConflict
from perdure.kernel.commit import Check, Commit, Put, Remove
from perdure.kernel.errors import OutcomeUnknown, StoreUnavailable
from perdure.kernel.view import Key, Range, Reads, Stored, Version, View


class Fault(Enum):
    """What goes wrong with one call of a store."""

    LOST_BEFORE = auto()
    """The call never arrives and no answer comes back."""

    LOST_AFTER = auto()
    """The call is done, its answer is lost."""

    DUPLICATE = auto()
    """The call is done twice, as a router or a driver that tries again does."""

    CONFLICT = auto()
    """A rival was there first; nothing is done."""

    THROTTLE = auto()
    """The store is busy; nothing is done."""

    CRASH_BEFORE = auto()
    """The process dies before the call is done."""

    CRASH_AFTER = auto()
    """The process dies when the call is done."""


class Crashed(BaseException):
    """The death of the process, as far as one process can play it."""


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """Faults by call, counted from 1: data, so that a run can be played again."""

    commits: Mapping[int, Fault] = field(default_factory=dict)
    loads: Mapping[int, Fault] = field(default_factory=dict)


NO_FAULTS: Final = FaultPlan()


class MemoryStore:
    """Records in a dict, which outlive the store as a file would: see :meth:`reopened`."""

    def __init__(self, plan: FaultPlan = NO_FAULTS) -> None:
        self.plan = plan
        self.commits = 0
        self.loads = 0
        self._is_closed = False
        self._records: dict[Key[Any], Stored] = {}
        self._sorts: defaultdict[str, list[str]] = defaultdict(list)

    def reopened(self, plan: FaultPlan = NO_FAULTS) -> MemoryStore:
        """Return another store on the same records, as another process would open it."""
        other = MemoryStore(plan)
        other._records = self._records
        other._sorts = self._sorts
        return other

    async def load(self, reads: Reads) -> View:
        self._check_open()
        self.loads += 1
        fault = self.plan.loads.get(self.loads)
        if fault in {Fault.CRASH_BEFORE, Fault.CRASH_AFTER}:
            raise Crashed
        if fault is not None:
            raise StoreUnavailable(expected="an answer to a load", found=f"fault {fault.name}")
        return self._view(reads)

    async def commit(self, commit: Commit) -> None:
        self._check_open()
        self.commits += 1
        fault = self.plan.commits.get(self.commits)
        if fault is None:
            self._apply(commit)
        else:
            self._fail(commit, fault)

    async def close(self) -> None:
        self._is_closed = True

    def _check_open(self) -> None:
        if self._is_closed:
            raise StoreUnavailable(expected="an open store", found="a closed one")

    def _fail(self, commit: Commit, fault: Fault) -> None:
        match fault:
            case Fault.LOST_BEFORE:
                raise OutcomeUnknown(expected="an answer to a commit", found="none")
            case Fault.LOST_AFTER:
                self._apply(commit)
                raise OutcomeUnknown(expected="an answer to a commit", found="none")
            case Fault.DUPLICATE:
                self._apply(commit)
                self._apply(commit)
            case Fault.CONFLICT:
                raise RevisionConflict(*(action.key for action in commit.actions))
            case Fault.THROTTLE:
                raise StoreUnavailable(expected="an answer to a commit", found="a busy store")
            case Fault.CRASH_BEFORE:
                raise Crashed
            case Fault.CRASH_AFTER:
                self._apply(commit)
                raise Crashed

    def _apply(self, commit: Commit) -> None:
        failed = [action.key for action in commit.actions if self._seen(action.key) != action.seen]
        if failed:
            if not self._has_happened(commit):
                raise RevisionConflict(*failed)
            return
        for action in commit.actions:
            match action:
                case Put():
                    version = action.version(commit.token)
                    self._records[action.key] = Stored(version, action.body)
                    if action.seen is None:
                        insort(self._sorts[action.key.partition], action.key.sort)
                case Remove():
                    del self._records[action.key]
                    self._sorts[action.key.partition].remove(action.key.sort)
                case Check():
                    pass

    def _has_happened(self, commit: Commit) -> bool:
        return any(
            self._seen(action.key) == action.version(commit.token)
            for action in commit.actions
            if isinstance(action, Put)
        )

    def _seen(self, key: Key[Any]) -> Version | None:
        stored = self._records.get(key)
        return None if stored is None else stored.version

    def _view(self, reads: Reads) -> View:
        stored = {key: self._records.get(key) for key in (*reads.keys, *reads.peeks)}
        found = {wanted: self._in(wanted) for wanted in reads.ranges}
        for keys in found.values():
            for key in keys:
                stored.setdefault(key, self._records[key])
        return View(stored, found, reads.keys, is_snapshot=True)

    def _in(self, wanted: Range[Any]) -> list[Key[Any]]:
        sorts = self._sorts.get(wanted.partition, [])
        inside = sorts[bisect_left(sorts, wanted.first) : bisect_left(sorts, wanted.last)]
        if wanted.descending:
            inside.reverse()
        return [Key(wanted.partition, sort, wanted.of) for sort in inside[: wanted.limit]]
