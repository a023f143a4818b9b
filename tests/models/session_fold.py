"""What a modelled journal comes to: facts as tuples, folded one by one.

A fact is ``(kind, ...)``: queued, steered, cancel, retracted, and those of the owner: run, step,
spoke, intent, result, turn, end.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

Fact = tuple[str, ...]


class Entry(NamedTuple):
    """One commit of a journal: who wrote it under which append id, and its facts."""

    append: tuple[str, int]
    facts: tuple[Fact, ...]


class Fold(NamedTuple):
    """The state of a session after some facts."""

    messages: tuple[Fact, ...] = ()
    """The transcript, with a mark where each run begins and is over."""

    run: str = ""
    steps: int = 0
    at: str = "boundary"
    """boundary, open, called, planned, ended or natural: how far the present step has come."""

    call: str = ""
    cancel: bool = False
    is_interrupting: bool = False
    queue: tuple[tuple[str, bool], ...] = ()
    steered: tuple[str, ...] = ()
    prompt: tuple[Fact, ...] = ()
    """What the present step's model is told."""

    corrupt: str = ""

    def next_waiting(self) -> str:
        """Return the send whose run comes next, interrupting ones first, or nothing."""
        first = [send for send, is_interrupt in self.queue if is_interrupt]
        return next(iter([*first, *(send for send, _ in self.queue)]), "")


@lru_cache(maxsize=500_000)
def fold(log: tuple[Entry, ...], joins: str = "") -> Fold:
    """Return what a journal comes to.

    ``joins`` breaks the rule when a steer joins: ``at once``, or ``not at the end`` of its run.
    """
    if not log:
        return Fold()
    state = fold(log[:-1], joins)
    for fact in log[-1].facts:
        if joins == "not at the end" and fact[0] == "end":
            state = state._replace(steered=())
        state = _after(state, fact)
        if joins == "at once":
            state = _joined(state)
    return state


def _after(was: Fold, fact: Fact) -> Fold:
    name = fact[1] if len(fact) > 1 else ""
    if fact[0] in {"queued", "retracted", "run"}:
        return _between(was, fact)
    after = None
    match fact[0]:
        case "steered" if was.run:
            after = was._replace(steered=(*was.steered, name))
        case "cancel" if was.run == name:
            after = was._replace(cancel=True)
        case "end" if was.run == name and was.at not in {"called", "planned"}:
            over = _joined(was)
            after = Fold((*over.messages, fact), queue=was.queue, corrupt=was.corrupt)
        case _ if was.run:
            after = _of_step(was, fact)
    return after or _corrupt(was, fact)


def _between(was: Fold, fact: Fact) -> Fold:
    if fact[0] == "queued":
        return was._replace(queue=(*was.queue, (fact[1], fact[2] == "interrupt")))
    return _left(was, fact[1]) if fact[0] == "retracted" else _begun(was, fact[1], fact[2])


def _of_step(was: Fold, fact: Fact) -> Fold | None:
    after = None
    match fact[0], was.at:
        case "step", "boundary" | "open" if not was.is_interrupting:
            new, steps = _joined(was), was.steps + (was.at == "boundary")
            after = new._replace(steps=steps, at="open", call="", prompt=new.messages)
        case "spoke", "open":
            at = "called" if fact[1] else "natural"
            after = was._replace(at=at, call=fact[1], messages=(*was.messages, fact))
        case "intent", "called":
            after = was._replace(at="planned")
        case "result", "called" | "planned" if fact[1] == was.call:
            unknown = fact[2] == "unknown"
            messages = (*was.messages, fact)
            after = was._replace(at="ended", messages=messages, is_interrupting=unknown)
        case "turn", "ended" | "natural":
            after = was._replace(at="over" if was.at == "natural" else "boundary")
    return after


def _begun(was: Fold, run: str, send: str) -> Fold:
    if was.run:
        return _corrupt(was, ("run", run))
    left = _left(was, send) if send else was
    return left._replace(run=run, messages=(*was.messages, ("began", run)))


def _left(was: Fold, send: str) -> Fold:
    if send not in dict(was.queue):
        return _corrupt(was, ("left", send))
    return was._replace(queue=tuple(each for each in was.queue if each[0] != send))


def _joined(was: Fold) -> Fold:
    told = tuple(("user", send) for send in was.steered)
    return was._replace(messages=(*was.messages, *told), steered=())


def _corrupt(was: Fold, fact: Fact) -> Fold:
    return was._replace(corrupt=was.corrupt or f"{' '.join(fact)} at {was.at} of {was.run!r}")
