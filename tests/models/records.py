"""What lies in the modelled store: addresses and the records found there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

Key = tuple[str | int, ...]
"""(world, kind, …): sorts pages of one world by tick, priority and first sequence."""

Page = frozenset[int]
"""The sequences still open in a page."""

Status = Literal["active", "closing", "destroyed"]


class Place(NamedTuple):
    """Where a command waits: the tick it is due at, and its priority there."""

    tick: int
    priority: int


class Receipt(NamedTuple):
    """What an admitted batch is told, now and for ever."""

    first_sequence: int
    first_entity: int
    ids: str


@dataclass(frozen=True, slots=True)
class Head:
    """The one record that every commit of a world writes, or names."""

    status: Status = "active"
    epoch: int = 0
    published: int = 0
    seq: int = 1
    next_sequence: int = 1
    next_entity: int = 1
    cancelled_below: int = 0
    open: int = 0
    """How many commands are open in the pages."""
    last_page: Key | None = None
    log_read: int = 0
    """Log seq up to which every page that the log names has been seen."""


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """What a batch id, or the id of a cancel-all, has produced."""

    digest: tuple[object, ...]
    first_sequence: int = 0
    first_entity: int = 0


@dataclass(frozen=True, slots=True)
class Entry:
    """A log entry: what happened, and which sequences it put into which pages."""

    happened: str
    opened: tuple[tuple[Key, Page], ...] = ()


@dataclass(frozen=True, slots=True)
class Manifest:
    """What one tick settled, in the order of application."""

    token: str
    epoch: int
    settled: tuple[int, ...]


def head_of(world: str) -> Key:
    return (world, "head")


def key_of(world: str, identity: str) -> Key:
    return (world, "key", identity)


def log_of(world: str, seq: int) -> Key:
    return (world, "log", seq)


def page_of(world: str, place: Place, first: int) -> Key:
    return (world, "due", place.tick, place.priority, first)


def manifest_of(world: str, tick: int) -> Key:
    return (world, "manifest", tick)


def cancelled_of(world: str, sequence: int) -> Key:
    return (world, "cancelled", sequence)


def place_of(page: Key) -> Place:
    return Place(int(page[2]), int(page[3]))
