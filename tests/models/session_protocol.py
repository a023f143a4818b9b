"""The session protocol as a model: owners, senders and a forgetful store in every order.

Unlike the plays of the world protocol, which chance draws, this explores: every state that a cast
can reach within its faults is visited once, breadth first, and each is held to the promises of
``session_promises``. What is found first has the shortest story. The model knows nothing of the
product: it is the decision record of sessions put into moves.

An actor that is not moved is frozen or dead, for as long as the others like. An owner sends a call
without a look at its lease, which is weaker than the product: nothing here rests on clocks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from tests.models import session_requests as requests
from tests.models.session_fold import Entry, Fact, Fold, fold
from tests.models.session_promises import (
    Ack,
    SessionPromise,
    SessionViolation,
    Unanswered,
    call_of,
    check_disk,
    check_sent,
)
from tests.models.session_requests import Append, Decided, Disk, Head, SessionRules

STEPS_MAX = 2
"""The steps of a run: a call, then a last word."""


class Owner(NamedTuple):
    """A process at the session: what it holds, has folded, and is about to say."""

    name: str
    at: str = "out"
    """out, behind, ready, asking, releasing, resting or gone."""

    epoch: int = 0
    view: tuple[Entry, ...] = ()
    seen: int = 0
    asked: Append | None = None
    appends: int = 0
    mine: tuple[str, ...] = ()
    sent: tuple[str, ...] = ()
    hand: tuple[Fact, ...] = ()
    """What came back from a model or a tool, and is not durable yet."""


class Client(NamedTuple):
    """Somebody without the fence, with one thing to ask, asked again after a lost answer."""

    kind: str
    name: str
    is_done: bool = False


class State(NamedTuple):
    """Everything at one moment."""

    disk: Disk
    owners: tuple[Owner, ...]
    clients: tuple[Client, ...]
    faults: int
    """Answers that may still be lost."""

    leases: int
    """Leases that may still run out."""

    late: tuple[Unanswered, ...] = ()
    acks: frozenset[Ack] = frozenset()
    sent: tuple[str, ...] = ()


Move = tuple[str, Callable[[], State]]


@dataclass(frozen=True, slots=True)
class Cast:
    """Who takes part, and how much may go wrong."""

    clients: tuple[tuple[str, str], ...]
    owners: tuple[str, ...] = ("A", "B")
    faults: int = 1
    leases: int = 1

    def begin(self) -> State:
        """Return a session whose run ``r`` has begun, and that nobody is at."""
        head = Head(revision=1, seq=1, run="r", hint=True)
        log = (Entry(("r", 0), (("run", "r", ""),)),)
        disk = Disk(head, log, keys=(("r", "started", "r"),), hint=True)
        clients = tuple(Client(*each) for each in self.clients)
        owners = tuple(Owner(name) for name in self.owners)
        return State(disk, owners, clients, self.faults, self.leases)


@dataclass(frozen=True, slots=True)
class Found:
    """A broken promise, and the shortest way to it."""

    promise: SessionPromise
    story: tuple[str, ...]

    def told(self) -> str:
        """Tell it line by line."""
        return "\n  ".join((str(self.promise), *self.story))


@dataclass(frozen=True, slots=True)
class Explored:
    """How far a search went, and what it found."""

    states: int
    labels: frozenset[str]
    """What has happened in one order or another."""

    is_whole: bool = False
    """Every state was visited, not only as many as were allowed."""

    found: Found | None = None


def explore(
    cast: Cast, rules: SessionRules, states_max: int, only: SessionPromise | None = None
) -> Explored:
    """Visit every state that a cast can reach, breadth first, until a promise is broken."""
    first = cast.begin()
    before: dict[State, tuple[State, str] | None] = {first: None}
    open_states, labels = deque([first]), set[str]()
    while open_states:
        if len(before) >= states_max:
            return Explored(len(before), frozenset(labels))
        state = open_states.popleft()
        for label, move in moves(state, rules):
            labels.add(label)
            try:
                after = move()
                if after in before:
                    continue
                check_disk(after.disk, after.acks, rules, only)
            except SessionViolation as violation:
                if only not in {None, violation.promise}:
                    continue
                story = (*_story(before, state), label, str(violation))
                found = Found(violation.promise, story)
                return Explored(len(before), frozenset(labels), found=found)
            before[after] = (state, label)
            open_states.append(after)
    return Explored(len(before), frozenset(labels), is_whole=True)


def _story(before: dict[State, tuple[State, str] | None], state: State) -> tuple[str, ...]:
    labels: list[str] = []
    came = before[state]
    while came is not None:
        labels.append(came[1])
        came = before[came[0]]
    return tuple(reversed(labels))


def moves(state: State, rules: SessionRules) -> Iterator[Move]:
    """Yield what may happen next."""
    for index, client in enumerate(state.clients):
        if not client.is_done:
            yield from _client_moves(state, index, client, rules)
    for owner in state.owners:
        yield from _owner_moves(state, owner, rules)
    if state.leases and state.disk.head.is_leased:
        disk = state.disk._replace(head=state.disk.head._replace(is_leased=False))
        yield "the lease runs out", lambda: state._replace(disk=disk, leases=state.leases - 1)
    for late in state.late:
        yield f"a late commit of {late.who} lands", lambda late=late: _landed(state, late, rules)


def _landed(state: State, late: Unanswered, rules: SessionRules) -> State:
    for owner in state.owners:
        if late.append and late.append[0] == owner.name and owner.at != "gone":
            is_asked = owner.asked is not None and owner.asked.id == late.append
            if not is_asked:
                raise SessionViolation(SessionPromise.ADOPTED, str(late.append))
    return _on(state, late.disk, rules)


def _on(state: State, disk: Disk, rules: SessionRules) -> State:
    """Put a disk in place; what waited for another revision will never land."""
    late = state.late
    if rules.revision:
        late = tuple(each for each in late if each.revision == disk.head.revision)
    return state._replace(disk=disk, late=late)


def _asked(
    state: State,
    who: str,
    decided: Decided,
    answered: Callable[[State, str], State],
    unanswered: State,
    rules: SessionRules,
    append: tuple[str, int] | None = None,
) -> Iterator[Move]:
    """Yield how a request may end: answered, or landed, late or never without an answer."""
    reply, disk = decided
    if disk is None:
        yield f"{who}: {reply}", lambda: answered(state, reply)
        return
    yield f"{who}: {reply}", lambda: answered(_on(state, disk, rules), reply)
    if state.faults:
        poorer = unanswered._replace(faults=state.faults - 1)
        yield f"{who}: {reply}, the answer is lost", lambda: _on(poorer, disk, rules)
        waits = Unanswered(who, state.disk.head.revision, disk, append)
        yield (
            f"{who}: no answer, the commit is on its way",
            lambda: poorer._replace(late=(*state.late, waits)),
        )


def _client_moves(state: State, index: int, client: Client, rules: SessionRules) -> Iterator[Move]:
    def answered(after: State, reply: str) -> State:
        clients = list(after.clients)
        clients[index] = client._replace(is_done=True)
        acks = after.acks | {(client.kind, client.name, reply)}
        return after._replace(clients=tuple(clients), acks=acks)

    decided = requests.control(state.disk, client.kind, client.name, rules)
    yield from _asked(state, f"{client.kind} {client.name}", decided, answered, state, rules)


def _with(state: State, owner: Owner) -> State:
    owners = tuple(owner if each.name == owner.name else each for each in state.owners)
    return state._replace(owners=owners)


def _owner_moves(state: State, owner: Owner, rules: SessionRules) -> Iterator[Move]:
    disk, name = state.disk, owner.name
    match owner.at:
        case "out" if disk.hint and disk.head.has_work and not disk.head.is_leased:
            gone = _with(state, owner._replace(at="gone"))
            taken = requests.take(disk, name, rules)
            yield from _asked(state, name, taken, lambda on, _: _taken(on, owner), gone, rules)
        case "behind":
            yield f"{name} folds what others wrote", lambda: _caught_up(state, owner, rules)
        case "ready":
            yield from _ready_moves(state, owner, rules)
        case "asking" if owner.asked is not None:
            yield from _append_moves(state, owner, owner.asked, rules)
        case "releasing":
            resting = owner._replace(at="resting")
            freed = requests.release(disk, name, owner.epoch)
            yield from _asked(
                state, name, freed, lambda on, _: _with(on, resting), _with(state, resting), rules
            )
        case "resting":
            gone = owner._replace(at="gone", view=(), seen=0)
            rested = requests.rest(disk, rules)
            yield from _asked(
                state, name, rested, lambda on, _: _with(on, gone), _with(state, gone), rules
            )


def _taken(state: State, owner: Owner) -> State:
    return _with(state, owner._replace(at="behind", epoch=state.disk.head.epoch))


def _caught_up(state: State, owner: Owner, rules: SessionRules) -> State:
    disk = state.disk
    if disk.head.epoch != owner.epoch:
        return _with(state, _gone(owner))
    missed = disk.log[len(owner.view) :]
    if any(entry.append[0] == owner.name for entry in missed):
        raise SessionViolation(SessionPromise.ADOPTED, f"{owner.name} takes it for another's")
    asked = owner.asked
    if asked is not None and not rules.thinks_again:
        again = asked._replace(seen=disk.head.seq)
        return _with(state, owner._replace(at="asking", view=disk.log, asked=again))
    caught_up = owner._replace(at="ready", view=disk.log, seen=disk.head.seq, asked=None)
    return _with(state, caught_up)


def _gone(owner: Owner) -> Owner:
    """Return an owner that has given up; all that it knew is forgotten."""
    return Owner(owner.name, at="gone")


def _append_moves(state: State, owner: Owner, asked: Append, rules: SessionRules) -> Iterator[Move]:
    def answered(after: State, reply: str) -> State:
        match reply:
            case "stale":
                return _with(after, _gone(owner))
            case "behind":
                return _with(after, owner._replace(at="behind"))
        if reply == "appended" and state.disk.head.holder != owner.name:
            raise SessionViolation(SessionPromise.FENCED, owner.name)
        view = (*owner.view, Entry(asked.id, asked.facts))
        # A reply says where the entry lies; without the rule that may be behind what was unseen.
        seen = asked.seen + 1 if reply == "landed" else after.disk.head.seq
        done = owner._replace(at="ready", view=view, seen=seen, asked=None, hand=())
        return _with(after, done)

    decided = requests.append(state.disk, asked, rules)
    label = f"{owner.name} appends {' + '.join(' '.join(each) for each in asked.facts)}"
    unanswered = _with(state, owner)
    yield from _asked(state, label, decided, answered, unanswered, rules, asked.id)


def _ready_moves(state: State, owner: Owner, rules: SessionRules) -> Iterator[Move]:
    """Yield what follows from what the owner has folded, and from nothing else."""
    folded = fold(owner.view, rules.joins)
    next_move = _next(folded, owner, rules)
    if next_move == "model":
        yield f"{owner.name} asks the model", lambda: _model(state, owner, folded, rules)
    elif next_move == "send":
        yield f"{owner.name} sends {folded.call}", lambda: _sends(state, owner, folded)
    elif not next_move:
        yield (
            f"{owner.name} has nothing to do",
            lambda: _with(state, owner._replace(at="releasing")),
        )
    else:
        mine = owner.mine
        if any(fact[0] == "intent" for fact in next_move):
            mine = tuple(sorted({*mine, folded.call}))
        asked = Append((owner.name, owner.appends + 1), owner.epoch, owner.seen, tuple(next_move))
        asking = owner._replace(at="asking", asked=asked, appends=owner.appends + 1, mine=mine)
        yield from _append_moves(_with(state, asking), asking, asked, rules)


def _next(state: Fold, owner: Owner, rules: SessionRules) -> str | list[Fact]:
    """Return the facts to append next, or what to do outside the journal."""
    if not state.run:
        waiting = state.next_waiting()
        return [("run", waiting, waiting)] if waiting else []
    if owner.hand:
        is_result = owner.hand[-1][0] == "result"
        return [*owner.hand, ("turn",), *_following(state)] if is_result else list(owner.hand)
    if state.at in {"called", "planned"}:
        return _of_call(state, owner, rules)
    if state.at == "open":
        return [("end", state.run, "cancelled")] if state.cancel else "model"
    ends: dict[str, list[Fact]] = {
        "natural": [("turn",), ("end", state.run, "completed")],
        "ended": [("turn",)],
        "boundary": _following(state),
    }
    return ends[state.at]


def _of_call(state: Fold, owner: Owner, rules: SessionRules) -> str | list[Fact]:
    """Return what becomes of a call that has no end yet."""
    is_planned = state.at == "planned"
    if is_planned and rules.close_unknown and state.call not in owner.mine:
        return [("result", state.call, "unknown"), ("turn",)]
    if state.cancel:
        unsent: Fact = ("result", state.call, "not sent")
        return [unsent, ("turn",), ("end", state.run, "cancelled")]
    if is_planned or not rules.intents_first:
        return "send"
    return [("intent", state.call)]


def _following(state: Fold) -> list[Fact]:
    if state.is_interrupting:
        return [("end", state.run, "interrupted")]
    if state.cancel:
        return [("end", state.run, "cancelled")]
    if state.steps >= STEPS_MAX:
        return [("end", state.run, "max_steps")]
    return [("step",)]


def _model(state: State, owner: Owner, folded: Fold, rules: SessionRules) -> State:
    head, log = state.disk.head, state.disk.log
    if head.epoch == owner.epoch and head.holder == owner.name:
        truth = fold(log, rules.joins)
        if truth.prompt != folded.prompt:
            detail = f"{folded.prompt} instead of {truth.prompt}"
            raise SessionViolation(SessionPromise.PROMPT_TRUE, detail)
    call = call_of(folded.run) if folded.steps == 1 else ""
    return _with(state, owner._replace(hand=(("spoke", call),)))


def _sends(state: State, owner: Owner, folded: Fold) -> State:
    check_sent(state.disk.log, folded.call, state.sent)
    # From here on it may have happened, whoever hears of it.
    hand: tuple[Fact, ...] = (("result", folded.call, "done"),)
    sent = tuple(sorted({*owner.sent, folded.call}))
    after = _with(state, owner._replace(hand=hand, sent=sent))
    return after._replace(sent=(*state.sent, folded.call))
