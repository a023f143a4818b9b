"""What must hold in every state of a modelled session, whoever is frozen and whatever was lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

from tests.models.session_fold import Entry, Fact, Fold, fold
from tests.models.session_requests import Disk, SessionRules

Ack = tuple[str, str, str]
"""The kind of what was asked, its name, and the answer."""


class SessionPromise(StrEnum):
    """What the session protocol promises."""

    FOLDS = "a journal folds: one end of each call, one end of each run"
    STEER_KEPT = "an acknowledged steer is in the transcript of its run"
    PAIRED = "nothing stands between a call and its result"
    PROMPT_TRUE = "a model is told what the journal says it was told"
    CANCEL_SEEN = "a cancel recorded before the intents is seen before them"
    DISPATCHED_ONCE = "an effectful call is sent at most once over all owners"
    ACK_KEPT = "what was acknowledged is in the journal, once"
    QUEUED_ONCE = "a queued send is run, waits, or was retracted, exactly once"
    HEAD_TRUE = "a head says what its journal comes to"
    ADOPTED = "an append without an answer is adopted or can never land"
    FENCED = "who has lost the fence writes nothing"
    FOUND = "a session with work is found by a hint"


class SessionViolation(Exception):
    """A promise was broken."""

    def __init__(self, promise: SessionPromise, detail: str = "") -> None:
        super().__init__(f"{promise} ({detail})")
        self.promise = promise


def check_disk(
    disk: Disk, acks: frozenset[Ack], rules: SessionRules, only: SessionPromise | None
) -> None:
    """Hold what is stored to all promises, or only one. Raises SessionViolation."""
    state = fold(disk.log, rules.joins)
    facts = [fact for entry in disk.log for fact in entry.facts]
    for promise, detail in _broken(disk, state, facts, acks):
        if only in {None, promise}:
            raise SessionViolation(promise, detail)


def _broken(
    disk: Disk, state: Fold, facts: list[Fact], acks: frozenset[Ack]
) -> Iterator[tuple[SessionPromise, str]]:
    head = disk.head
    if state.corrupt:
        yield SessionPromise.FOLDS, state.corrupt
    ends = Counter(fact[1] for fact in facts if fact[0] == "end")
    if any(count > 1 for count in ends.values()):
        yield SessionPromise.FOLDS, str(ends)
    for place, fact in enumerate(facts):
        if fact[0] == "intent" and ("cancel", run_of_call(fact[1])) in facts[:place]:
            yield SessionPromise.CANCEL_SEEN, f"{fact[1]} has an intent behind it"
    yield from _queued(disk, state, facts)
    for kind, name, reply in acks:
        yield from _acknowledged(state, facts, (kind, name, reply))
    for before, after in zip(state.messages, state.messages[1:], strict=False):
        if before[0] == "spoke" and before[1] and after[:2] != ("result", before[1]):
            yield SessionPromise.PAIRED, " ".join(after)
    told = (head.seq, head.run, head.cancel, head.queued)
    if told != (len(disk.log), state.run, state.cancel, len(state.queue)):
        yield SessionPromise.HEAD_TRUE, str(told)
    if head.has_work and not (head.hint and disk.hint):
        yield SessionPromise.FOUND, f"run {head.run!r}, {head.queued} queued"


def _queued(disk: Disk, state: Fold, facts: list[Fact]) -> Iterator[tuple[SessionPromise, str]]:
    for send in {fact[1] for fact in facts if fact[0] == "queued"}:
        waits = [waiting for waiting, _ in state.queue].count(send)
        began = sum(fact[0] == "run" and fact[2] == send for fact in facts)
        retracted = facts.count(("retracted", send))
        asked = sum(fact[:2] == ("queued", send) for fact in facts)
        if asked != 1 or waits + began + retracted != 1:
            detail = f"{send}: asked {asked}, waits {waits}, began {began}, retracted {retracted}"
            yield SessionPromise.QUEUED_ONCE, detail
        states = {"pending": waits, "started": began, "retracted": retracted}
        if not states.get(dict(disk.waiting).get(send, ""), 0):
            yield SessionPromise.HEAD_TRUE, f"{send} is {dict(disk.waiting).get(send)}"


FACTS = {
    "steered": "steered", "queued": "queued", "started": "run", "cancelled": "cancel",
    "retracted": "retracted",
}  # fmt: skip
"""Of each reply that says that something was done: the fact that says so."""


def _acknowledged(state: Fold, facts: list[Fact], ack: Ack) -> Iterator[tuple[SessionPromise, str]]:
    kind, name, reply = ack
    if reply not in FACTS:
        return
    if sum(fact[:2] == (FACTS[reply], name) for fact in facts) != 1:
        yield SessionPromise.ACK_KEPT, f"{kind} {name}: {reply}"
    if reply == "steered" and name not in state.steered and ("user", name) not in state.messages:
        yield SessionPromise.STEER_KEPT, name
    # Where it joins is the run that it was steered into: its mark comes before that run's end.
    if reply == "steered" and _run_of(facts, name) != _run_of(state.messages, name, state.run):
        yield SessionPromise.STEER_KEPT, f"{name} in another run"


def _run_of(facts: list[Fact] | tuple[Fact, ...], name: str, otherwise: str = "") -> str:
    run = ""
    for fact in facts:
        run = fact[1] if fact[0] in {"run", "began"} else run
        if fact in {("steered", name), ("user", name)}:
            return run
    return otherwise


def call_of(run: str) -> str:
    """Name the call that the model asks for in a run."""
    return f"call-of-{run}"


def run_of_call(call: str) -> str:
    """Return the run of a call."""
    return call.removeprefix("call-of-")


def check_sent(log: tuple[Entry, ...], call: str, sent: tuple[str, ...]) -> None:
    """Hold a call that leaves now to the journal and to what left before. Raises."""
    if call in sent:
        raise SessionViolation(SessionPromise.DISPATCHED_ONCE, call)
    facts = [fact for entry in log for fact in entry.facts]
    before = facts[: facts.index(("intent", call))] if ("intent", call) in facts else facts
    if ("cancel", run_of_call(call)) in before:
        raise SessionViolation(SessionPromise.CANCEL_SEEN, f"{call} is sent")


class Unanswered(NamedTuple):
    """A commit that the store has not made yet: it lands on the revision it was decided on."""

    who: str
    revision: int
    disk: Disk
    append: tuple[str, int] | None
