"""Every durable record of a world and of a catalog, and the key each one lives under."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, ClassVar, Literal

from perdure.kernel import limits, spelling
from perdure.kernel.canonical import digest
from perdure.kernel.ids import (
    IN_TICK_ENTITY_FIRST,
    NO_TICK,
    BatchId,
    EntityId,
    Epoch,
    Holder,
    Instant,
    Partition,
    RunId,
    Seq,
    Sequence,
    StorageId,
    TableId,
    Tick,
    Token,
    WorldId,
)
from perdure.kernel.kept import kept
from perdure.kernel.pace import MissedTicks, Scheduled
from perdure.kernel.places import PageName, WorldRef, manifest_sort, manifests_partition, number
from perdure.kernel.ranges import Ranges
from perdure.kernel.record import Record
from perdure.kernel.view import Key

Status = Literal["active", "closing", "destroyed", "moving", "moved"]
WriterMode = Literal["resumable", "cleanup_only"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ancestor:
    """One part of a fork's history: ticks of another world's run, up to and with one."""

    world: WorldId
    run: RunId
    up_to: Tick


@dataclass(frozen=True, slots=True, kw_only=True)
class World(Record):
    """Identity of a world, in its catalog."""

    later: ClassVar[Mapping[str, Any]] = {"missed": "coalesce"}

    storage: StorageId
    world: WorldId
    name: str
    kind: str
    run: RunId
    parent: WorldId | None = None
    writer_mode: str = "resumable"
    """One of WRITER_MODES, or a word of a newer version, which is read but never written."""
    lineage: tuple[Ancestor, ...] = ()
    created_at: Instant
    every_ms: int | None = None
    missed: MissedTicks = "coalesce"
    app: str = ""
    """The application it was made for: another one would reject what it does not know."""
    begins: Tick = Tick(0)
    """First tick that is known of it: one forked from another storage has no older ones."""

    @property
    def ref(self) -> WorldRef:
        return WorldRef(self.storage, self.world)

    @property
    def key(self) -> Key[World]:
        return world_key(self.ref)


@dataclass(frozen=True, slots=True, kw_only=True)
class Name(Record):
    """Claim of a name, unique in its storage."""

    name: str
    world: WorldId

    @property
    def key(self) -> Key[Name]:
        return name_key(self.partition, self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature(Record):
    """What a table holds: the components of one archetype, as they were when it was made."""

    immutable: ClassVar[bool] = True

    table: TableId
    components: tuple[str, ...]
    columns: tuple[tuple[str, str, bool], ...]
    """(name, logical type, nullable) of every component column, in table order."""
    fingerprint: str

    @property
    def logical(self) -> tuple[object, ...]:
        """What two signatures of one table must agree in; nullability is none of it."""
        return (self.components, tuple(column[:2] for column in self.columns), self.fingerprint)

    @property
    def key(self) -> Key[Signature]:
        return signature_key(self.partition, self.table)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence:
    """Who may write. The epoch rises when the holder changes; ``until`` only decides when."""

    epoch: Epoch = Epoch(0)
    holder: Holder | None = None
    until: Instant = Instant(0)

    def is_held(self, now: Instant) -> bool:
        """Say whether its holder's lease still runs.

        An ``until`` further ahead than any lease was written by a wrong clock.
        """
        return self.holder is not None and now < self.until <= now + limits.LEASE_MS_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """What a careful writer is about to do: apply these sequences, or compute."""

    stage: Literal["apply", "compute"]
    first: Sequence = Sequence(0)
    last: Sequence = Sequence(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain:
    """How often the writers of one tick died, and what the last one was about to do."""

    tick: Tick = NO_TICK
    starts: int = 0
    probe: Probe | None = None
    culprits: tuple[tuple[Sequence, int], ...] = ()
    """(sequence, deaths) of commands that are known to have killed their writer."""


@dataclass(frozen=True, kw_only=True)
class Head(Record):
    """The one record that every commit to a world writes or conditions on; at most 1 KB."""

    status: Status = "active"
    writer_mode: str = "resumable"
    fence: Fence = field(default_factory=Fence)
    published: Tick = NO_TICK
    manifest_digest: str = ""
    seq: Seq = Seq(0)
    log_digest: str = ""
    next_sequence: Sequence = Sequence(1)
    next_entity_id: EntityId = EntityId(1)
    last_page: PageName | None = None
    cancelled_below: Sequence = Sequence(0)
    open_commands: int = 0
    checkpoint: Tick = NO_TICK
    drain: Drain = field(default_factory=Drain)
    wake_at: Instant | None = None
    required: int = 0
    """How many consumers must have read the last tick's entry before the next is published;
    the record `required` names them."""
    configured: int = 0
    """Times that the world's own choice of processors, hooks and resources has changed."""

    body = spelling.head

    @property
    def key(self) -> Key[Head]:
        return head_key(self.partition)

    @property
    def next_tick(self) -> Tick:
        return Tick(self.published + 1)

    @property
    def is_stalled(self) -> bool:
        """So many writers of the next tick died that it is tried again only now and then.

        Deaths while commands are applied in named parts are progress: each narrows the search.
        """
        drain = self.drain
        searching = drain.probe is not None and drain.probe.stage == "apply"
        is_dying = drain.tick == self.next_tick and drain.starts >= limits.STALLED_FROM_STARTS
        return is_dying and not searching


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Commands of a batch that are due together, and the page that names them."""

    tick: Tick
    priority: int
    count: int
    page: PageName


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchKey(Record):
    """What a batch id produced: the same answer for ever."""

    immutable: ClassVar[bool] = True

    batch: BatchId
    digest: str
    seq: Seq
    published: Tick
    first_sequence: Sequence
    first_entity_id: EntityId
    groups: tuple[Group, ...]

    body = spelling.batch_key

    @property
    def key(self) -> Key[BatchKey]:
        return batch_key(self.partition, self.batch)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandKey(Record):
    """What a caller's command id produced."""

    immutable: ClassVar[bool] = True

    command: str
    digest: str
    batch: BatchId
    seq: Seq
    index: int
    sequence: Sequence
    entity_id: EntityId | None
    tick: Tick
    priority: int
    page: PageName

    @property
    def key(self) -> Key[CommandKey]:
        return command_key(self.partition, self.command)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestKey(Record):
    """What an idempotency key of another request produced."""

    immutable: ClassVar[bool] = True

    request: str
    digest: str
    reply: dict[str, int]

    @property
    def key(self) -> Key[RequestKey]:
        return request_key(self.partition, self.request)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancelled(Record):
    """That one command was cancelled."""

    immutable: ClassVar[bool] = True

    sequence: Sequence
    at: Instant

    @property
    def key(self) -> Key[Cancelled]:
        return cancelled_key(self.partition, self.sequence)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a command that was not simply applied.

    ``retryable`` names the page at which it is open again.
    """

    sequence: Sequence
    status: Literal["rejected", "retryable", "dead_letter"]
    code: str
    detail: str = ""
    attempts: int = 0
    again: PageName | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRows:
    """Rows of one (tick, table): in a segment, or inline when they are few.

    ``inline`` maps column names to lists of values; then ``segment`` is None.
    """

    table: TableId
    rows: int
    segment: str | None = None
    bytes: int = 0
    sha256: str = ""
    inline: dict[str, list[Any]] | None = None


@dataclass(frozen=True, kw_only=True)
class Manifest(Record):
    """The record that makes one tick visible.

    ``settled`` are the sequences that are done with (applied, rejected or dead letter);
    ``outcomes`` are the exceptions to "applied", by sequence; ``cancelled`` left their pages unapplied. ``checkpoint`` holds the world's whole
    state when this tick wrote one.
    """

    immutable: ClassVar[bool] = True
    later: ClassVar[Mapping[str, Any]] = {"scheduled": None}

    tick: Tick
    token: Token
    epoch: Epoch
    seq: Seq
    drained_seq: Seq
    """How far the log went when this tick's drain began: what came later it did not see."""

    at: Instant
    previous: str
    processors: tuple[str, ...] = ()
    settled: Ranges = ()
    cancelled: Ranges = ()
    outcomes: tuple[Outcome, ...] = ()
    tables: tuple[TableRows, ...] = ()
    checkpoint: tuple[TableRows, ...] | None = None
    entities: int = 0
    next_in_tick_entity_id: EntityId = IN_TICK_ENTITY_FIRST
    scheduled: Scheduled | None = None
    """Said of a tick that a schedule asked for."""

    @kept
    def key(self) -> Key[Manifest]:
        return Key(self.partition, manifest_sort(self.tick), Manifest)

    @kept
    def digest(self) -> str:
        return digest("perdure.manifest.v1", self.body())

    @kept
    def _body(self) -> bytes:
        return super().body()

    def body(self) -> bytes:
        return self._body

    def outcome_of(self, sequence: Sequence) -> Outcome | None:
        """Return what is said of one command, unless it is simply in ``settled``."""
        at = bisect_left(self.outcomes, sequence, key=attrgetter("sequence"))
        found = self.outcomes[at : at + 1]
        return found[0] if found and found[0].sequence == sequence else None


def world_key(ref: WorldRef) -> Key[World]:
    return Key(ref.catalog, f"world/{ref.world}", World)


def name_key(catalog: Partition, name: str) -> Key[Name]:
    return Key(catalog, f"name/{name}", Name)


def signature_key(catalog: Partition, table: TableId) -> Key[Signature]:
    return Key(catalog, f"signature/{table}", Signature)


def head_key(world: Partition) -> Key[Head]:
    return Key(world, "head", Head)


def batch_key(world: Partition, batch: BatchId) -> Key[BatchKey]:
    return Key(world, f"key/batch/{batch}", BatchKey)


def command_key(world: Partition, command: str) -> Key[CommandKey]:
    return Key(world, f"key/command/{command}", CommandKey)


def request_key(world: Partition, request: str) -> Key[RequestKey]:
    return Key(world, f"key/request/{request}", RequestKey)


def cancelled_key(world: Partition, sequence: Sequence) -> Key[Cancelled]:
    return Key(world, f"cancelled/{number(sequence)}", Cancelled)


def manifest_key(world: Partition, tick: Tick) -> Key[Manifest]:
    """Return the key of a tick's manifest; ``world`` is the world's own partition."""
    return Key(manifests_partition(world), manifest_sort(tick), Manifest)
