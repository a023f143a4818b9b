"""An authority on paper: requests decided on a dictionary, every condition checked, nothing awaited."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any, TypeVar

from perdure.kernel import limits
from perdure.kernel.commit import Put, Remove, derived
from perdure.kernel.ids import Instant, Token
from perdure.kernel.record import Record
from perdure.kernel.seen import SeenInPart
from perdure.kernel.view import (
    Decision,
    Key,
    Missing,
    Reads,
    Request,
    Stored,
    Version,
    View,
    written,
)

T = TypeVar("T")


@dataclass
class Paper:
    """Decides one request at a time. ``now`` moves only when a test moves it."""

    now: Instant = Instant(1_000_000)
    stored: dict[Key[Any], Stored] = field(default_factory=dict)
    loads: int = 0
    """Loads of the last request."""
    tokens: count[int] = field(default_factory=lambda: count(1))

    def ask(self, request: Request[T], *, rival: Callable[[], object] | None = None) -> T:
        """Decide and commit; ``rival`` acts once, between the first decision and its commit."""
        while True:
            view, decision = self.decided(request)
            if rival is not None:
                rival()
            if not decision.writes:
                return decision.reply
            view.absorb(written(decision.writes))
            commit = derived(view, Token(f"token-{next(self.tokens)}"))
            assert len(commit.actions) <= limits.COMMIT_ACTIONS_MAX
            if all(self._version(each.key) == each.seen for each in commit.actions):
                break
            assert rival is not None, "without a rival every condition holds"
            rival = None
        for action in commit.actions:
            if isinstance(action, Put):
                self.stored[action.key] = Stored(
                    Version(action.revision, commit.token), action.body
                )
            elif isinstance(action, Remove):
                del self.stored[action.key]
        return decision.reply

    def decided(self, request: Request[T]) -> tuple[View, Decision[T]]:
        """Decide without committing."""
        view = self.load(request.reads())
        for self.loads in range(1, limits.ROUNDS_MAX + 1):
            try:
                return view, request.decide(view, self.now)
            except SeenInPart as part:
                raise part.error from None  # here every commit shows whole
            except Missing as missing:
                view.merge(self.load(missing.reads))
        raise AssertionError("a decision that never ends")

    def load(self, reads: Reads) -> View:
        stored = {key: self.stored.get(key) for key in (*reads.keys, *reads.peeks)}
        found = {}
        for wanted in reads.ranges:
            keys = [
                Key(key.partition, key.sort, wanted.of)
                for key in self.stored
                if key.partition == wanted.partition and wanted.first <= key.sort < wanted.last
            ]
            keys.sort(key=lambda key: key.sort, reverse=wanted.descending)
            found[wanted] = keys[: wanted.limit]
            stored |= {key: self.stored[key] for key in found[wanted]}
        return View(stored, found, reads.keys)

    def put(self, *records: Record) -> None:
        """Make records as if they had been committed."""
        for record in records:
            version = Version(1, Token(f"token-{next(self.tokens)}"))
            self.stored[record.key] = Stored(version, record.body())

    def held(self, key: Key[Any]) -> Any:
        """Return the record at ``key`` or None."""
        stored = self.stored.get(key)
        return None if stored is None else key.of.read(key.partition, key.sort, stored.body)

    def held_under(self, prefix: str) -> list[Any]:
        """Return the records of every partition whose sort keys start with ``prefix``."""
        keys = sorted((k for k in self.stored if k.sort.startswith(prefix)), key=lambda k: k.sort)
        return [self.held(key) for key in keys]

    def _version(self, key: Key[Any]) -> Version | None:
        stored = self.stored.get(key)
        return None if stored is None else stored.version
