"""Load, decide, commit, and again on conflict: the engine with every pause a rival could use."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from tests.models.records import Key
from tests.models.rules import Rules
from tests.models.store import Commit, Conflict, OutcomeUnknown, Store
from tests.models.truth import Truth

T = TypeVar("T")
Steps = Generator[None, None, T]
"""An actor: it yields wherever rivals may act, and returns what it was told."""

CONTENDED = "contended"
ATTEMPTS_MAX = 30


class Missing(Exception):
    """A decision needs a record that was not loaded."""

    def __init__(self, key: Key) -> None:
        super().__init__(key)
        self.key = key


class View(dict[Key, tuple[Any, int]]):
    """Named records with their revisions; all of them condition the commit."""

    def named(self, key: Key) -> Any:
        """Return the record at ``key``, None if there is none. Raises Missing."""
        if key not in self:
            raise Missing(key)
        return self[key][0]


@dataclass(frozen=True, slots=True)
class Decision:
    """A reply and the writes that must land for it to hold; no writes, and it holds at once."""

    reply: Any
    writes: Mapping[Key, Any] = field(default_factory=dict)
    effect: Callable[[], None] = lambda: None


class Request(Protocol):
    """Something to be decided on records asked for by name."""

    def named(self) -> tuple[Key, ...]:
        """Return the records it is sure to look at."""
        ...

    def decide(self, view: View) -> Decision:
        """Decide, purely. Raises Missing."""
        ...


@dataclass(slots=True)
class Stage:
    """What all actors of one play share."""

    store: Store
    truth: Truth
    rules: Rules
    failures: dict[int, int]
    """How often each sequence fails yet when it is applied."""
    goes_on: bool
    """Whether a drain continues behind a failed command."""


def ask(stage: Stage, who: str, request: Request) -> Steps[Any]:
    """Decide ``request`` until its writes have landed, and return its reply."""
    for attempt in range(ATTEMPTS_MAX):
        view, decision = yield from _decided(stage, request)
        if not decision.writes:
            return decision.reply
        yield
        conditions = {key: revision for key, (_, revision) in view.items()}
        token = f"{who}.{attempt}.{stage.store.chance.random()}"
        commit = Commit(who, token, conditions, decision.writes, decision.effect)
        if (yield from _landed(stage.store, commit)):
            return decision.reply
    return CONTENDED


def ask_once(stage: Stage, who: str, request: Request) -> Steps[Any]:
    """Decide ``request`` and send it once; who hears nothing has given up."""
    view, decision = yield from _decided(stage, request)
    yield
    conditions = {key: revision for key, (_, revision) in view.items()}
    token = f"{who}.once.{stage.store.chance.random()}"
    try:
        stage.store.commit(Commit(who, token, conditions, decision.writes, decision.effect))
    except (Conflict, OutcomeUnknown):
        return "nothing"
    yield
    stage.store.reveal(token)
    return decision.reply


def _decided(stage: Stage, request: Request) -> Steps[tuple[View, Decision]]:
    view = View()
    wanted = request.named()
    rounds, is_snapshot = 0, False
    while True:
        rounds += 1
        yield from _load(stage.store, view, wanted, snapshot=is_snapshot)
        try:
            decision = request.decide(view)
        except Missing as missing:
            wanted = (*view, missing.key) if is_snapshot else (missing.key,)
            continue
        is_moment = is_snapshot or len(view) == 1 or (rounds == 1 and not stage.store.torn)
        if decision.writes or is_moment or not stage.rules.refusal_snapshot:
            return view, decision
        is_snapshot, wanted = True, tuple(view)


def _load(store: Store, view: View, wanted: tuple[Key, ...], *, snapshot: bool) -> Steps[None]:
    if store.torn and not snapshot:
        for key in wanted:
            yield
            view[key] = store.versioned(key)
        return
    while True:
        yield
        try:
            view.update(store.snapshot(wanted))
        except Conflict:
            continue
        return


def _landed(store: Store, commit: Commit) -> Steps[bool]:
    """Send ``commit`` until it is known whether it landed."""
    while True:
        try:
            store.commit(commit)
        except Conflict:
            return False
        except OutcomeUnknown:
            yield
            if store.bears(commit):
                store.tell(commit.author, "finds its own token: the commit had landed")
                return True
            continue
        yield
        # Success is answered only when every record of the commit can be seen.
        store.reveal(commit.token)
        return True
