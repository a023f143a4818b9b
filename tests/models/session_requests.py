"""What may be asked of a modelled session: each request decides on the disk, purely."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import NamedTuple

from tests.models.session_fold import Entry, Fact


def _rule(text: str) -> bool:
    return field(default=True, metadata={"text": text})


@dataclass(frozen=True, slots=True)
class SessionRules:
    """Which rules of the session protocol are obeyed; all of them, unless told otherwise."""

    revision: bool = _rule("a commit lands only on the revision of the head it was decided on")
    seen: bool = _rule("an append names what its owner has folded, and lands only on that")
    append_id: bool = _rule("an append that had landed is known again by its id")
    control_on_head: bool = _rule("a control frame is written with the head")
    epoch: bool = _rule("whoever takes a session over raises its epoch")
    intents_first: bool = _rule("a call leaves after its intent is durable")
    thinks_again: bool = _rule("an owner that was behind decides anew what it appends")
    close_unknown: bool = _rule("a call with an intent of another process is not made again")
    joins_at_step: bool = _rule("a steer joins the transcript where a step begins")
    joins_at_end: bool = _rule("a steer that no step took in joins at the end of its run")
    send_key: bool = _rule("a send leaves a key by which it is known again")
    nudge: bool = _rule("a send to a session without a hint lays one")
    rest_on_head: bool = _rule("a hint is taken away only on a head without work")

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Return the name of every rule."""
        return tuple(rule.name for rule in fields(cls))

    def without(self, name: str) -> SessionRules:
        """Return these rules less one."""
        return replace(self, **{name: False})

    @property
    def joins(self) -> str:
        """Return how the rule when a steer joins is broken, if it is."""
        if not self.joins_at_step:
            return "at once"
        return "" if self.joins_at_end else "not at the end"


class Head(NamedTuple):
    """The head of a session; every commit writes it, so its revision orders them."""

    revision: int = 0
    seq: int = 0
    epoch: int = 0
    holder: str = ""
    is_leased: bool = False
    run: str = ""
    cancel: bool = False
    queued: int = 0
    hint: bool = False

    @property
    def has_work(self) -> bool:
        return bool(self.run) or self.queued > 0


class Disk(NamedTuple):
    """All records of one session."""

    head: Head
    log: tuple[Entry, ...] = ()
    keys: tuple[tuple[str, str, str], ...] = ()
    """Of each send: its id, how it was taken in, and its run."""

    waiting: tuple[tuple[str, str], ...] = ()
    """Of each queued send: pending, started or retracted."""

    hint: bool = False


Decided = tuple[str, Disk | None]
"""A reply, and the disk after it if something must be written for it."""


def written(disk: Disk, **changes: object) -> Disk:
    """Return a disk with a head changed and its revision raised."""
    head = disk.head._replace(revision=disk.head.revision + 1, **changes)  # type: ignore[arg-type]
    return disk._replace(head=head)


def control(disk: Disk, kind: str, name: str, rules: SessionRules) -> Decided:
    """Decide what somebody without the fence asks."""
    if kind == "cancel":
        if disk.head.run != name or disk.head.cancel:
            return "nothing to cancel", None
        return "cancelled", _controlled(disk, name, (("cancel", name),), rules, cancel=True)
    if kind == "retract":
        if dict(disk.waiting).get(name) != "pending":
            return "not retractable", None
        facts = (("retracted", name),)
        after = _controlled(disk, name, facts, rules, queued=disk.head.queued - 1)
        return "retracted", _standing(after, name, "retracted")
    known = next((how for send, how, _ in disk.keys if send == name), None)
    if known is not None:
        return known, None
    return _sent(disk, kind, name, rules)


def _sent(disk: Disk, kind: str, name: str, rules: SessionRules) -> Decided:
    head = disk.head
    if not head.run and not head.queued:
        after = _controlled(disk, name, (("run", name, ""),), rules, run=name, cancel=False)
        return "started", _keyed(_nudged(after, rules), name, "started", name, rules)
    if kind == "steer" and head.run:
        after = _controlled(disk, name, (("steered", name),), rules)
        return "steered", _keyed(after, name, "steered", head.run, rules)
    facts: list[Fact] = [("queued", name, kind)]
    is_cancel = kind == "interrupt" and bool(head.run) and not head.cancel
    if is_cancel:
        facts.append(("cancel", head.run))
    changes = {"queued": head.queued + 1, "cancel": head.cancel or is_cancel}
    after = _nudged(_controlled(disk, name, tuple(facts), rules, **changes), rules)
    return "queued", _keyed(_standing(after, name, "pending"), name, "queued", name, rules)


def _controlled(
    disk: Disk, name: str, facts: tuple[Fact, ...], rules: SessionRules, **changes: object
) -> Disk:
    entry = Entry((name, 0), facts)
    added = disk._replace(log=(*disk.log, entry))
    if not rules.control_on_head:
        return added
    return written(added, seq=disk.head.seq + 1, **changes)


def _keyed(disk: Disk, name: str, how: str, run: str, rules: SessionRules) -> Disk:
    return disk._replace(keys=(*disk.keys, (name, how, run))) if rules.send_key else disk


def _standing(disk: Disk, name: str, state: str) -> Disk:
    return disk._replace(waiting=tuple(sorted({**dict(disk.waiting), name: state}.items())))


def _nudged(disk: Disk, rules: SessionRules) -> Disk:
    if disk.head.hint or not rules.nudge:
        return disk
    return disk._replace(hint=True, head=disk.head._replace(hint=True))


def take(disk: Disk, holder: str, rules: SessionRules) -> Decided:
    """Become the owner, if the fence is free or its lease is over."""
    head = disk.head
    if head.holder and head.is_leased:
        return "held", None
    epoch = head.epoch + 1 if rules.epoch or not head.epoch else head.epoch
    return "taken", written(disk, epoch=epoch, holder=holder, is_leased=True)


def release(disk: Disk, holder: str, epoch: int) -> Decided:
    """Let go of the fence, if it is still this one's."""
    if (disk.head.holder, disk.head.epoch) != (holder, epoch):
        return "another's", None
    return "released", written(disk, holder="", is_leased=False)


def rest(disk: Disk, rules: SessionRules) -> Decided:
    """Take away the hint of a session that has nothing to do."""
    if rules.rest_on_head and disk.head.has_work:
        return "due", None
    if not disk.head.hint:
        return "rests", None
    return "rests", written(disk, hint=False)._replace(hint=False)


class Append(NamedTuple):
    """What an owner wants durable, the same however often it is asked."""

    id: tuple[str, int]
    epoch: int
    seen: int
    facts: tuple[Fact, ...]


def append(disk: Disk, asked: Append, rules: SessionRules) -> Decided:
    """Decide an append under the fence: landed before, stale, behind, or written."""
    head, (holder, _) = disk.head, asked.id
    if head.seq > asked.seen and rules.append_id and disk.log[asked.seen].append == asked.id:
        return "landed", None
    is_holder = head.epoch == asked.epoch and (head.holder == holder or not rules.epoch)
    if not is_holder:
        return "stale", None
    if head.seq > asked.seen and rules.seen:
        return "behind", None
    log = (*disk.log, Entry(asked.id, asked.facts))
    after = written(disk._replace(log=log), seq=len(log), is_leased=True)
    for fact in asked.facts:
        after = _applied(after, fact)
    return "appended", after


def _applied(disk: Disk, fact: Fact) -> Disk:
    head = disk.head
    match fact[0]:
        case "run":
            begun = head._replace(run=fact[1], cancel=False, queued=head.queued - 1)
            return _standing(disk._replace(head=begun), fact[2], "started")
        case "end":
            return disk._replace(head=head._replace(run="", cancel=False))
    return disk
