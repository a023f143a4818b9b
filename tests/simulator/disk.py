"""The records that outlive every process, and what a reader sees of a commit that is under way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from perdure.authority.memory import MemoryStore
from perdure.kernel.commit import Commit
from perdure.kernel.ids import Token
from perdure.kernel.view import Key, Range, Reads, Stored, View


@dataclass(frozen=True, slots=True)
class _Hidden:
    """What is seen in the place of a record that was written: until when, and by whom."""

    before: Stored | None
    until: float
    token: Token


class Disk(MemoryStore):
    """A memory store that tells of each commit, once, and shows it record by record if asked to."""

    def __init__(self, chance: Random, seconds: Callable[[], float]) -> None:
        super().__init__()
        self.watch: Callable[[Commit], None] = lambda commit: None
        self.torn_reads = 0
        self.shows_within_seconds = 0.0
        """So long after a commit a reader may still miss a part of it, if nobody was told of it yet."""

        self.shows_early = 0.0
        """The chance that a look is the one after which a record shows to all."""

        self._chance = chance
        self._seconds = seconds
        self._hidden: dict[Key[Any], _Hidden] = {}

    def apply(self, commit: Commit, *, torn: bool) -> None:
        """Do a commit that has arrived. Raises RevisionConflict."""
        before = {action.key: self._records.get(action.key) for action in commit.actions}
        self._apply(commit)
        changed = [key for key, stored in before.items() if self._records.get(key) != stored]
        for key in before:
            self._hidden.pop(key, None)
        if not changed:
            return  # it had happened
        if torn and len(changed) > 1:
            for key in changed:
                if self._chance.random() < 0.5:
                    until = self._seconds() + self._chance.random() * self.shows_within_seconds
                    self._hidden[key] = _Hidden(before[key], until, commit.token)
        self.watch(commit)

    def answered(self, commit: Commit) -> None:
        """Show a commit whole: its sender is about to be told."""
        for action in commit.actions:
            hidden = self._hidden.get(action.key)
            if hidden is not None and hidden.token == commit.token:
                del self._hidden[action.key]

    def look(self, reads: Reads) -> View:
        """Read once: strongly, but beside commits that are under way."""
        if reads.snapshot:
            for key in (*reads.keys, *reads.peeks):
                self._hidden.pop(key, None)
        self._show_some()
        if not self._hidden:
            return self._view(reads)
        stored = {key: self.visible(key) for key in (*reads.keys, *reads.peeks)}
        found = {wanted: self.keys_in(wanted) for wanted in reads.ranges}
        for keys in found.values():
            for key in keys:
                stored.setdefault(key, self.visible(key))
        return View(stored, found, reads.keys)

    def visible(self, key: Key[Any]) -> Stored | None:
        """Return what a reader sees at ``key``."""
        hidden = self._hidden.get(key)
        if hidden is None:
            return self._records.get(key)
        self.torn_reads += 1
        return hidden.before

    def keys_in(self, wanted: Range[Any]) -> list[Key[Any]]:
        """Return the keys that a reader finds in a range."""
        inside = {key: each for key, each in self._hidden.items() if _is_in(key, wanted)}
        keys = self._in(replace(wanted, limit=wanted.limit + len(inside)))
        if inside:
            shown = {key.sort for key in keys if key not in inside or inside[key].before}
            shown |= {key.sort for key, each in inside.items() if each.before}
            sorts = sorted(shown, reverse=wanted.descending)
            self.torn_reads += len(sorts) != len(keys)
            keys = [Key(wanted.partition, sort, wanted.of) for sort in sorts]
        return keys[: wanted.limit]

    def records(self) -> dict[Key[Any], Stored]:
        """Return every record there is."""
        return self._records

    def show_all(self) -> None:
        """End what is under way."""
        self._hidden.clear()

    def _show_some(self) -> None:
        now = self._seconds()
        for key, hidden in list(self._hidden.items()):
            if hidden.until <= now or self._chance.random() < self.shows_early:
                del self._hidden[key]


def _is_in(key: Key[Any], wanted: Range[Any]) -> bool:
    return key.partition == wanted.partition and wanted.first <= key.sort < wanted.last
