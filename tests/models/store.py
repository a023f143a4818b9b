"""A store with atomic commits that loses answers, delivers late, and shows its records bit by bit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.models.records import Head, Key, head_of

TORN_CHANCE = 0.5
"""Of a commit on a torn store to be shown bit by bit, and of each record to be hidden then."""


class Conflict(Exception):
    """A condition does not hold, or a commit in flight holds a record. Nothing happened."""


class OutcomeUnknown(Exception):
    """No answer came: the commit has landed, will land later, or never will."""


@dataclass(frozen=True, slots=True)
class Commit:
    """One atomic step: ``writes`` (None removes) if all revisions in ``conditions`` still hold."""

    author: str
    token: str
    conditions: Mapping[Key, int]
    writes: Mapping[Key, Any]
    effect: Callable[[], None]
    """Tells the truth what has happened, in the instant it happens."""


@dataclass(frozen=True, slots=True)
class _Hidden:
    """A record that is committed and not visible yet; its readers find what was before."""

    value: Any
    revision: int
    token: str


@dataclass(slots=True)
class Store:
    """Records by key.

    ``torn`` is DynamoDB: the records of one commit become visible one after another, so reads
    that are no snapshot see some of a commit. Otherwise it is SQLite.
    ``loss`` is the chance of a commit to stay without an answer, ``haste`` that of a hidden
    record to show before the next step.
    """

    chance: Random
    torn: bool
    loss: float
    haste: float
    trace: list[tuple[str, str, tuple[Any, ...]]] = field(default_factory=list)
    hidden: dict[Key, _Hidden] = field(default_factory=dict)
    _records: dict[Key, tuple[Any, int]] = field(default_factory=dict)
    _tokens: dict[Key, str] = field(default_factory=dict)
    _in_flight: list[Commit] = field(default_factory=list)
    _revision: int = 0

    def tell(self, who: str, what: str, *details: Any) -> None:
        """Add a line to the trace; it is put into words only if somebody reads it."""
        self.trace.append((who, what, details))

    def read(self, key: Key) -> Any:
        """Return what is visible at ``key``, None if nothing is."""
        found = self._records.get(key)
        return None if found is None else found[0]

    def versioned(self, key: Key) -> tuple[Any, int]:
        """Return what is visible at ``key`` and its revision, (None, 0) if nothing is."""
        return self._records.get(key, (None, 0))

    def snapshot(self, keys: Iterable[Key]) -> dict[Key, tuple[Any, int]]:
        """Read all ``keys`` as of one moment. Raises Conflict beside a commit on one of them."""
        wanted = tuple(keys)
        if any(key in self.hidden for key in wanted):
            raise Conflict
        return {key: self.versioned(key) for key in wanted}

    def keys(self, world: str, kind: str) -> list[Key]:
        """Return the visible keys of one kind in a world, in order."""
        return sorted(key for key in self._records if key[0] == world and key[1] == kind)

    def found(self, records: Mapping[Key, Any]) -> None:
        """Put the records a play begins with."""
        for key, value in records.items():
            self._revision += 1
            self._records[key] = (value, self._revision)

    def commit(self, commit: Commit) -> None:
        """Make ``commit`` happen, or not. Raises Conflict, OutcomeUnknown."""
        if self.chance.random() >= self.loss:
            self._apply(commit)
            return
        fate = self.chance.choice(("landed", "late", "never"))
        self.tell(commit.author, "gets no answer; its commit {}", fate)
        if fate == "landed":
            self._try(commit)
        elif fate == "late":
            self._in_flight.append(commit)
        raise OutcomeUnknown

    def bears(self, commit: Commit) -> bool:
        """Return whether a head that ``commit`` wrote still bears its token."""
        return any(self._tokens.get(key) == commit.token for key in commit.writes)

    def reveal(self, token: str | None = None) -> None:
        """Show what is hidden of one commit, or of all."""
        for key in [k for k, v in self.hidden.items() if token is None or v.token == token]:
            self._show(key)

    def drift(self) -> bool:
        """Let something happen that nobody asked for: a record shows, a late commit lands."""
        if self.hidden and self.chance.random() < self.haste:
            key = self.chance.choice(list(self.hidden))
            self._show(key)
            self.tell("store", "shows {}", name(key))
            return True
        if self._in_flight and self.chance.random() < 0.2:
            late = self._in_flight.pop(self.chance.randrange(len(self._in_flight)))
            self.tell("store", "delivers a late commit of {}", late.author)
            self._try(late)
            return True
        return False

    def calm(self) -> None:
        """End all faults: everything shows, nothing is in flight, every commit is answered."""
        self.reveal()
        self._in_flight.clear()
        self.loss = 0.0

    def _try(self, commit: Commit) -> None:
        try:
            self._apply(commit)
        except Conflict:
            self.tell("store", "refuses that commit: its conditions do not hold")

    def _apply(self, commit: Commit) -> None:
        if any(key in self.hidden for key in (*commit.conditions, *commit.writes)):
            raise Conflict
        for key, revision in commit.conditions.items():
            if self.versioned(key)[1] != revision:
                raise Conflict
        is_torn = self.torn and self.chance.random() < TORN_CHANCE
        for key, value in commit.writes.items():
            self._revision += 1
            self.hidden[key] = _Hidden(value, self._revision, commit.token)
            if not is_torn or self.chance.random() >= TORN_CHANCE:
                self._show(key)
            if key == head_of(str(key[0])):
                self._tokens[key] = commit.token
        self.tell(commit.author, "COMMITS {}{}", _Words(commit.writes), _Names(self.hidden))
        commit.effect()

    def _show(self, key: Key) -> None:
        shown = self.hidden.pop(key)
        if shown.value is None:
            self._records.pop(key, None)
        else:
            self._records[key] = (shown.value, shown.revision)


class _Words:
    """The writes of a commit, in short."""

    def __init__(self, writes: Mapping[Key, Any]) -> None:
        self._writes = writes

    def __str__(self) -> str:
        return " ".join(
            f"{name(key)}={_word(value)}"
            for key, value in self._writes.items()
            if key[1] in ("head", "due", "manifest")
        )


class _Names:
    """The keys hidden at this moment, in short."""

    def __init__(self, hidden: Iterable[Key]) -> None:
        self._keys = tuple(hidden)

    def __str__(self) -> str:
        return f" (hidden: {', '.join(map(name, self._keys))})" if self._keys else ""


def name(key: Key) -> str:
    """Return a key as a path."""
    return "/".join(map(str, key))


def _word(value: Any) -> str:
    match value:
        case None:
            return "removed"
        case Head():
            return (
                f"{value.status}(epoch {value.epoch}, published {value.published}, seq {value.seq},"
                f" next {value.next_sequence}, below {value.cancelled_below})"
            )
        case frozenset():
            return str(sorted(value))
        case _:
            return str(getattr(value, "settled", value))
