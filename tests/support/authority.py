"""An authority on a dictionary: load, decide, commit, with every condition checked."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any, TypeVar

from perdure.kernel import limits
from perdure.kernel.commit import Check, Put, Remove, derived
from perdure.kernel.ids import Instant, Token
from perdure.kernel.record import Record
from perdure.kernel.seen import SeenInPart
from perdure.kernel.view import Key, Missing, Reads, Request, Stored, Version, View, written

T = TypeVar("T")


class FakeAuthority:
    """Executes one request at a time. ``now`` moves only when a test moves it."""

    def __init__(self, now: int = 1_000_000) -> None:
        self.now = Instant(now)
        self.records: dict[Key[Any], Stored] = {}
        self.before_commit: Callable[[], None] = lambda: None
        self.commits = 0
        self._tokens = count(1)

    async def execute(self, request: Request[T]) -> T:
        while True:
            view, decision = self._decided(request)
            if not decision.writes:
                return decision.reply
            view.absorb(written(decision.writes))
            commit = derived(view, Token(f"fake-{next(self._tokens)}"))
            assert len(commit.actions) <= limits.COMMIT_ACTIONS_MAX
            self.before_commit()
            if all(self._version(each.key) == each.seen for each in commit.actions):
                break
        for action in commit.actions:
            if isinstance(action, Put):
                version = Version(action.revision, commit.token)
                self.records[action.key] = Stored(version, action.body)
            elif isinstance(action, Remove):
                del self.records[action.key]
            else:
                assert isinstance(action, Check)
        self.commits += 1
        return decision.reply

    def put(self, *records: Record) -> None:
        """Make records as if they had been committed."""
        for record in records:
            version = Version(1, Token(f"fake-{next(self._tokens)}"))
            self.records[record.key] = Stored(version, record.body())

    def held(self, key: Key[Any]) -> Any:
        """Return the record at ``key`` or None."""
        stored = self.records.get(key)
        return None if stored is None else key.of.read(key.partition, key.sort, stored.body)

    def _decided(self, request: Request[Any]):
        view = self._load(request.reads())
        for _ in range(limits.ROUNDS_MAX):
            try:
                return view, request.decide(view, self.now)
            except SeenInPart as part:
                raise part.error from None  # here every commit shows whole
            except Missing as missing:
                view.merge(self._load(missing.reads))
        raise AssertionError("a decision that never ends")

    def _load(self, reads: Reads) -> View:
        stored = {key: self.records.get(key) for key in (*reads.keys, *reads.peeks)}
        found = {}
        for wanted in reads.ranges:
            keys = [
                Key(key.partition, key.sort, wanted.of)
                for key in self.records
                if key.partition == wanted.partition and wanted.first <= key.sort < wanted.last
            ]
            keys.sort(key=lambda key: key.sort, reverse=wanted.descending)
            found[wanted] = keys[: wanted.limit]
            stored |= {key: self.records[key] for key in found[wanted]}
        return View(stored, found, reads.keys)

    def _version(self, key: Key[Any]) -> Version | None:
        stored = self.records.get(key)
        return None if stored is None else stored.version
