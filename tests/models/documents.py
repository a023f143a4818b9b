"""Documents as a dictionary: what every reading at every commit must say, and what is refused.

Nothing here knows of records, keys or commits of a store. A batch is told to a copy of everything;
if it is refused, the copy is thrown away. Every content keeps the value it led to, so a reading of
the past is a look into a list.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pi_durable.delta import apply_immutable

Address = tuple[str, str, str | None]
"""Namespace, kind and key: one owner is enough for a model."""


class No(Exception):
    """A refusal, by the code it must have."""


@dataclass(frozen=True)
class Create:
    address: Address
    history: str
    value: Any
    version: int = 1
    id: int | None = None
    meta: Any = None


@dataclass(frozen=True)
class Copy:
    address: Address
    history: str
    source: int
    at: int | None = None
    id: int | None = None
    meta: Any = None


@dataclass(frozen=True)
class Change:
    id: int
    kind: str
    content: Any
    """The value of a base, or the operations of a delta."""

    version: int = 1
    revision: int | None = None


@dataclass(frozen=True)
class Retire:
    id: int
    revision: int | None = None


Wish = Create | Copy | Change | Retire


@dataclass
class Said:
    """What a document said from one commit on."""

    seq: int
    version: int
    value: Any
    deltas: int


@dataclass
class Life:
    """A document from its beginning to its end."""

    id: int
    address: Address
    history: str
    meta: Any
    born: int
    said: list[Said]
    ended: int | None = None

    def lives(self, at: int | None) -> bool:
        if at is None:
            return self.ended is None
        return self.born <= at and (self.ended is None or at < self.ended)

    def at(self, at: int | None) -> Said:
        return [each for each in self.said if at is None or each.seq <= at][-1]

    def kept(self) -> list[int]:
        """Return the commits whose contents must lie there, and no others."""
        if self.history == "rewindable":
            return [each.seq for each in self.said]
        if self.ended is not None:
            return []
        return [each.seq for each in self.said[-1 - self.said[-1].deltas :]]


@dataclass
class DocumentsModel:
    """A document store that holds nothing but documents of one owner."""

    seq: int = 0
    next_id: int = 2
    lives: dict[int, Life] = field(default_factory=dict)
    ids: set[int] = field(default_factory=set)
    """Every id that ever was given, those of the forgotten included."""

    def commit(self, batch: Sequence[Wish]) -> list[int]:
        """Do all of a batch or none of it, and return the ids of what it creates. Raises No.

        The ids that it takes are gone, whatever comes of it.
        """
        ids = [wish.id for wish in batch if isinstance(wish, Create | Copy)]
        self.next_id = max([self.next_id, *(id + 1 for id in ids if id is not None)])
        step = _Step(copy.deepcopy(self))
        self.next_id += ids.count(None)
        for wish in _in_order(batch):
            step.do(wish)
        step.settle_addresses()
        self.seq, self.lives = step.seq, step.model.lives
        self.ids |= set(step.born)
        return step.born

    def find(self, address: Address, at: int | None) -> int | None:
        found = [each.id for each in self._living(at) if each.address == address]
        assert len(found) <= 1, "one document at an address"
        return found[0] if found else None

    def load(self, id: int, at: int | None) -> tuple[int, Any, int] | str | None:
        """Return version, value and deltas since the base, a refusal's code, or nothing."""
        life = self.lives.get(id)
        if life is None:
            return None
        if at is not None and life.history != "rewindable":
            return "history_not_kept"
        if not life.lives(at):
            return None
        said = life.at(at)
        return said.version, said.value, said.deltas

    def listed(self, namespace: str, kind: str | None, at: int | None) -> list[int]:
        return sorted(
            each.id
            for each in self._living(at)
            if each.address[0] == namespace and kind in (None, each.address[1])
        )

    def kept(self) -> set[tuple[int, int]]:
        """Return document and commit of every content that must lie there."""
        return {(life.id, seq) for life in self.lives.values() for seq in life.kept()}

    def _living(self, at: int | None) -> list[Life]:
        return [each for each in self.lives.values() if each.lives(at)]


class _Step:
    """A batch on its way, on a copy of the model."""

    def __init__(self, model: DocumentsModel) -> None:
        self.model = model
        self.seq = model.seq + 1
        self.before = copy.deepcopy(model)
        self.born: list[int] = []

    def do(self, wish: Wish) -> None:
        match wish:
            case Create():
                self._create(wish, wish.version, wish.value)
            case Copy():
                said = self._source(wish)
                self._create(wish, said.version, copy.deepcopy(said.value))
            case Change():
                self._change(wish)
            case Retire():
                self._retire(wish)

    def settle_addresses(self) -> None:
        living = [each for each in self.model.lives.values() if each.ended is None]
        addresses = [each.address for each in living]
        if len(set(addresses)) < len(addresses):
            raise No("address_taken")

    def _create(self, wish: Create | Copy, version: int, value: Any) -> None:
        id = wish.id
        if id is None:
            id, self.model.next_id = self.model.next_id, self.model.next_id + 1
        if id in self.model.lives or id in self.born:
            raise No("id_taken")
        self.born.append(id)
        said = [Said(self.seq, version, value, 0)]
        self.model.lives[id] = Life(id, wish.address, wish.history, wish.meta, self.seq, said)

    def _source(self, wish: Copy) -> Said:
        life = self.before.lives.get(wish.source)
        if life is None or self.model.lives.get(wish.source) != life:
            raise No("copy_refused")  # it is not there, or this batch has touched it
        is_past = wish.at is not None
        if (is_past and life.history != "rewindable") or (wish.at or 0) >= self.seq:
            raise No("copy_refused")
        same = (life.address[1:], life.history, life.meta)
        if not life.lives(wish.at) or same != (wish.address[1:], wish.history, wish.meta):
            raise No("copy_refused")
        return life.at(wish.at)

    def _living(self, id: int, revision: int | None) -> Life:
        life = self.model.lives.get(id)
        if life is None:
            raise No("unknown_document")
        if life.ended is not None:
            raise No("document_retired")
        before = self.before.lives.get(id, life)
        if revision not in (None, len(before.said)):
            raise No("revision_differs")
        return life

    def _change(self, wish: Change) -> None:
        life = self._living(wish.id, wish.revision)
        last = life.said[-1]
        if last.seq == self.seq:
            raise No("needs_base")
        if wish.kind == "base":
            life.said.append(Said(self.seq, wish.version, wish.content, 0))
            return
        if wish.version != last.version:
            raise No("needs_base")
        try:
            value = apply_immutable(last.value, wish.content)
        except Exception as error:
            raise No("delta_does_not_apply") from error
        life.said.append(Said(self.seq, last.version, value, last.deltas + 1))

    def _retire(self, wish: Retire) -> None:
        life = self._living(wish.id, wish.revision)
        life.ended = self.seq
        if life.history == "none":
            del self.model.lives[life.id]


def _in_order(batch: Sequence[Wish]) -> list[Wish]:
    """Documents that were there: contents, then ends. Then those that begin, each with its end."""
    created = {wish.id for wish in batch if isinstance(wish, Create | Copy)} - {None}
    changes = [w for w in batch if isinstance(w, Change) and w.id not in created]
    ends = [w for w in batch if isinstance(w, Retire) and w.id not in created]
    begun: list[Wish] = []
    for wish in batch:
        if isinstance(wish, Change) and wish.id in created:
            begun.append(wish)
        elif isinstance(wish, Create | Copy):
            begun.append(wish)
            begun += [
                w for w in batch if isinstance(w, Retire) and w.id is not None and w.id == wish.id
            ]
    return [*changes, *ends, *begun]
