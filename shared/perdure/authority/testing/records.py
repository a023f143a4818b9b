"""Records and requests that are just enough to try a store with."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass, field, replace
from functools import cache
from typing import ClassVar, Final

from perdure.kernel.commit import Check, Commit, Put, Remove
from perdure.kernel.errors import Conflict, NotFound
from perdure.kernel.ids import Instant, Partition, Token
from perdure.kernel.record import Record
from perdure.kernel.view import Decision, Key, Range, Reads, Removed, Version, View

HERE: Final = Partition("t/here")
ELSEWHERE: Final = Partition("t/elsewhere")


@dataclass(frozen=True, slots=True, kw_only=True)
class Counter(Record):
    name: str
    count: int = 0

    @property
    def key(self) -> Key[Counter]:
        return counter(self.name, self.partition)


@dataclass(frozen=True, slots=True, kw_only=True)
class Note(Record):
    name: str
    text: str

    @property
    def key(self) -> Key[Note]:
        return note(self.name, self.partition)


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt(Record):
    """What a keyed request produced, for ever."""

    immutable: ClassVar[bool] = True

    id: str
    text: str
    count: int

    @property
    def key(self) -> Key[Receipt]:
        return receipt(self.id, self.partition)


def counter(name: str, partition: Partition = HERE) -> Key[Counter]:
    return Key(partition, f"counter/{name}", Counter)


def note(name: str, partition: Partition = HERE) -> Key[Note]:
    return Key(partition, f"note/{name}", Note)


def receipt(id: str, partition: Partition = HERE) -> Key[Receipt]:
    return Key(partition, f"receipt/{id}", Receipt)


NOTES: Final = Range(HERE, "note/", "note0", Note)


@cache
def noise(characters: int) -> str:
    """Return text that deflates to three quarters, the same each time."""
    digests = (hashlib.sha256(b"%d" % number).digest() for number in range(characters // 42 + 1))
    return base64.b64encode(b"".join(digests)).decode()[:characters]


def put(
    name: str, body: bytes, *, by: str, seen: Version | None = None, partition: Partition = HERE
) -> Commit:
    """Return a commit that writes one record, past the engine."""
    return Commit(Token(by), (Put(note(name, partition), seen, body),))


def version(token: str, revision: int = 1) -> Version:
    return Version(revision, Token(token))


def removal(name: str, seen: Version, *, by: str) -> Commit:
    """Return a commit that removes one record, and leaves its token beside it."""
    return Commit(Token(by), (Remove(note(name), seen), Put(note(by), None, b"gone")))


def checked(name: str, seen: Version | None, *, by: str) -> Commit:
    """Return a commit that writes only if another record is still as seen."""
    return Commit(Token(by), (Check(note(name), seen), Put(note(by), None, b"checked")))


@dataclass(frozen=True, slots=True)
class Add:
    """Add to a counter, and say what it then is."""

    once: ClassVar[bool] = False

    name: str = "c"
    by: int = 1
    stream: Partition = HERE

    def reads(self) -> Reads:
        return Reads(keys=(counter(self.name, self.stream),))

    def decide(self, view: View, now: Instant) -> Decision[int]:
        found = view.get(counter(self.name, self.stream))
        before = found or Counter(partition=self.stream, name=self.name)
        after = replace(before, count=before.count + self.by)
        return Decision(after.count, (after,))


@dataclass(frozen=True, slots=True)
class AddOnce(Add):
    """Add, but let the caller decide again after a lost race."""

    once: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class Tell:
    """Count a text under an id: the same id and text are counted once."""

    once: ClassVar[bool] = False

    id: str
    text: str
    stream: Partition = HERE

    def reads(self) -> Reads:
        new = receipt(self.id, self.stream)
        return Reads(keys=(new, counter("told", self.stream)), absent=frozenset({new}))

    def decide(self, view: View, now: Instant) -> Decision[int]:
        known = view.get(receipt(self.id, self.stream))
        if known is not None:
            if known.text != self.text:
                raise Conflict(expected=f"the text known as {self.id}", found="another")
            return Decision(known.count)
        told = view.get(counter("told", self.stream)) or Counter(partition=self.stream, name="told")
        count = told.count + 1
        kept = Receipt(partition=self.stream, id=self.id, text=self.text, count=count)
        return Decision(count, (replace(told, count=count), kept))


@dataclass(frozen=True, slots=True)
class Write:
    """Write notes, whatever there is."""

    once: ClassVar[bool] = False

    notes: tuple[tuple[str, str], ...]
    stream: Partition = HERE

    def reads(self) -> Reads:
        return Reads(keys=tuple(note(name, self.stream) for name, _ in self.notes))

    def decide(self, view: View, now: Instant) -> Decision[None]:
        return Decision(
            None,
            tuple(Note(partition=self.stream, name=name, text=text) for name, text in self.notes),
        )


@dataclass(frozen=True, slots=True)
class WriteTwins:
    """Write a note of one name here and elsewhere: two records with equal bodies."""

    once: ClassVar[bool] = False

    name: str
    text: str
    stream: Partition = HERE

    def reads(self) -> Reads:
        return Reads(keys=(note(self.name), note(self.name, ELSEWHERE)))

    def decide(self, view: View, now: Instant) -> Decision[None]:
        twins = (Note(partition=each, name=self.name, text=self.text) for each in (HERE, ELSEWHERE))
        return Decision(None, tuple(twins))


@dataclass(frozen=True, slots=True)
class Erase:
    """Remove a note, if there is one, and count that."""

    once: ClassVar[bool] = False

    name: str
    stream: Partition = HERE

    def reads(self) -> Reads:
        return Reads(keys=(note(self.name, self.stream), counter("erased", self.stream)))

    def decide(self, view: View, now: Instant) -> Decision[None]:
        found = view.get(note(self.name, self.stream))
        before = view.get(counter("erased", self.stream))
        count = 1 if before is None else before.count + 1
        erased = Counter(partition=self.stream, name="erased", count=count)
        return Decision(None, () if found is None else (Removed(found.key), erased))


@dataclass(frozen=True, slots=True)
class Look:
    """Say what counters hold."""

    once: ClassVar[bool] = False

    names: tuple[str, ...]
    snapshot: bool = False
    stream: Partition = HERE

    def reads(self) -> Reads:
        keys = tuple(counter(name, self.stream) for name in self.names)
        return Reads(keys=keys, snapshot=self.snapshot)

    def decide(self, view: View, now: Instant) -> Decision[tuple[int, ...]]:
        found = (view.get(counter(name, self.stream)) for name in self.names)
        return Decision(tuple(0 if each is None else each.count for each in found))


@dataclass(frozen=True, slots=True)
class Move:
    """Move an amount from one counter to another that it finds by the way."""

    once: ClassVar[bool] = False

    source: str
    target: str
    amount: int
    stream: Partition = HERE

    def reads(self) -> Reads:
        return Reads(keys=(counter(self.source, self.stream),))

    def decide(self, view: View, now: Instant) -> Decision[None]:
        source = view.get(counter(self.source, self.stream))
        if source is None or source.count < self.amount:
            raise NotFound(expected=f"{self.amount} in {self.source}", found="less")
        target = view.get(counter(self.target, self.stream)) or Counter(
            partition=self.stream, name=self.target
        )
        return Decision(
            None,
            (
                replace(source, count=source.count - self.amount),
                replace(target, count=target.count + self.amount),
            ),
        )


@dataclass(frozen=True, slots=True)
class Copy:
    """Write what a counter holds into a note; the counter is named, or only peeked at."""

    once: ClassVar[bool] = False

    source: str
    peeking: bool = False
    stream: Partition = HERE

    def reads(self) -> Reads:
        source = (counter(self.source, self.stream),)
        return Reads(peeks=source) if self.peeking else Reads(keys=source)

    def decide(self, view: View, now: Instant) -> Decision[str]:
        key = counter(self.source, self.stream)
        found = view.peek(key) if self.peeking else view.get(key)
        text = "none" if found is None else str(found.count)
        return Decision(text, (Note(partition=self.stream, name="copy", text=text),))


@dataclass(frozen=True, slots=True)
class Collect:
    """Join all notes a range finds into one, and mark or remove what was joined."""

    once: ClassVar[bool] = False

    removing: bool = True
    unannounced: bool = False
    stream: Partition = HERE
    within: Range[Note] = field(default=NOTES)

    def reads(self) -> Reads:
        return Reads(ranges=() if self.unannounced else (self.within,))

    def decide(self, view: View, now: Instant) -> Decision[str]:
        notes = [each for each in view.find(self.within) if each.name != "all"]
        text = " ".join(each.text for each in notes)
        joined = Note(partition=self.stream, name="all", text=text)
        view.get(joined.key)
        taken = (
            Removed(each.key) if self.removing else replace(each, text=f"{each.text}.")
            for each in notes
        )
        return Decision(text, (joined, *taken))
