"""What is true of a document store: told by each commit to its log (D0)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.simulator.records import Json, expect

from perdure.kernel.commit import Commit, Put
from perdure.kernel.ids import Partition
from perdure.kernel.record import Record
from perdure.kernel.view import Key

State = dict[int, str]
"""What each living document says, by its id."""


@dataclass(slots=True)
class Library:
    """Follows the log of one document store. Raises Violation."""

    read_body: Callable[[bytes], Any]
    partition: Partition
    states: list[State] = field(default_factory=lambda: [{}])
    """What lives after each commit; the store begins with nothing."""

    rewindable: set[int] = field(default_factory=set)
    """Documents of which everything is kept that they ever said."""

    happened: dict[str, int] = field(default_factory=dict)
    """At which commit a writing happened, by its mark."""

    known: int = 0
    """The last commit that somebody was told of: of what is behind it, a part may not show yet."""

    denied: set[str] = field(default_factory=set)
    """Writings that somebody was told have not happened, and never will."""

    @property
    def head(self) -> Key[Any]:
        return Key(self.partition, "head", Record)

    @property
    def seq(self) -> int:
        """The last commit."""
        return len(self.states) - 1

    def commit(self, commit: Commit) -> None:
        """Learn of a commit that has just happened."""
        said = {
            action.key.sort: self.read_body(action.body)
            for action in commit.actions
            if isinstance(action, Put) and action.key.partition == self.partition
        }
        entries = [each for sort, each in said.items() if sort.startswith("log/")]
        for entry in entries:
            self._entered(entry)
        if "head" in said:
            expect(said["head"]["seq"] == self.seq, "D0", "head {} at {}", said["head"], self.seq)

    def _entered(self, entry: Json) -> None:
        expect(entry["seq"] == self.seq + 1, "D0", "commit {} behind {}", entry["seq"], self.seq)
        state = dict(self.states[-1])
        marks = set()
        for write in entry["writes"]:
            if write["w"] == "document.retire":
                state.pop(write["id"])
                continue
            if write.get("history") == "rewindable":
                self.rewindable.add(write["id"])
            mark = write["content"]["value"]["by"]
            marks.add(mark)
            state[write["id"]] = mark
        self.states.append(state)
        for mark in marks:
            expect(mark not in self.happened, "D0", "{} happened twice", mark)
            expect(mark not in self.denied, "D0", "{} was told not to happen", mark)
            self.happened[mark] = self.seq

    def told(self, mark: str, seq: int) -> None:
        """A writing was said to be a commit."""
        true = self.happened.get(mark)
        expect(true == seq, "D0", "{} is told commit {}, true is {}", mark, seq, true)
        self.known = max(self.known, seq)

    def refused(self, mark: str, code: str) -> None:
        """A writing was said not to have happened."""
        expect(mark not in self.happened, "D0", "{} is told {}, but happened", mark, code)
        self.denied.add(mark)
