"""Inspection: records as they lie in a store, also those that nobody else would read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Generic

from perdure.kernel.errors import Corrupt
from perdure.kernel.ids import Instant, Partition
from perdure.kernel.pages import Page
from perdure.kernel.places import after
from perdure.kernel.view import Decision, Key, R, Range, Reads, View

INSPECTED_MAX = 250
"""Records of one inspection."""


@dataclass(frozen=True, slots=True)
class Held(Generic[R]):
    """What lies at a key: a record, or nothing, or bytes with a ``flaw``."""

    record: R | None
    flaw: str | None = None


@dataclass(frozen=True, slots=True)
class Inspect(Generic[R]):
    """Read records of one partition, each by itself: a garbled one hides none of the others."""

    partition: Partition
    keys: tuple[Key[R], ...]
    at_once: bool = False
    """As of one moment, so that no running commit hides any: at most LOAD_KEYS_MAX."""

    once: ClassVar[bool] = False

    @property
    def stream(self) -> Partition:
        return Partition(f"{self.partition}#read")

    def reads(self) -> Reads:
        return Reads(peeks=self.keys, snapshot=self.at_once)

    def decide(self, view: View, now: Instant) -> Decision[tuple[Held[R], ...]]:
        return Decision(tuple(_held(view, key) for key in self.keys))


@dataclass(frozen=True, slots=True)
class FindPages:
    """List where a world's pages lie, behind ``beyond``, one page of them; they are not read."""

    partition: Partition
    beyond: str = "due/"

    once: ClassVar[bool] = False

    @property
    def stream(self) -> Partition:
        return Partition(f"{self.partition}#read")

    def _range(self) -> Range[Page]:
        return Range(self.partition, f"{self.beyond}\x00", after("due/"), Page, INSPECTED_MAX)

    def reads(self) -> Reads:
        return Reads(ranges=(self._range(),))

    def decide(self, view: View, now: Instant) -> Decision[tuple[Key[Page], ...]]:
        keys = view.keys_of(self._range())
        return Decision(tuple(Key(key.partition, key.sort, Page) for key in keys))


def _held(view: View, key: Key[R]) -> Held[R]:
    try:
        record = view.peek(key)
    except Corrupt as error:
        return Held(None, error.found)
    if record is None:
        return Held(None)
    stored = view.stored[key]
    if stored is not None and stored.body != record.body():
        return Held(None, "bytes that its content does not spell")
    return Held(record)
