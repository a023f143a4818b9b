"""Records of a session, and where each one lies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from perdure.kernel.ids import (
    AgentRunId,
    CallKey,
    Instant,
    Lineage,
    Partition,
    SendId,
    Seq,
    SessionId,
    StorageId,
    short_hash,
)
from perdure.kernel.places import (
    MINUTE_MS,
    WAKE_SHARDS,
    catalog_partition,
    number,
)
from perdure.kernel.record import Record
from perdure.kernel.records import Fence
from perdure.kernel.session.facts import CancelAt, Decided, Reason
from perdure.kernel.session.frames import Place
from perdure.kernel.session.messages import Usage
from perdure.kernel.view import Key

RunState = Literal["idle", "active", "paused"]
How = Literal["started", "queued", "steered"]
Waiting = Literal["pending", "retracted", "started"]


@dataclass(frozen=True, slots=True)
class SessionRef:
    """Which session: its storage and its id."""

    storage: StorageId
    session: SessionId

    @property
    def partition(self) -> Partition:
        return Partition(f"s/{short_hash(self.storage)}/{short_hash(self.session)}")

    @property
    def catalog(self) -> Partition:
        return catalog_partition(self.storage)

    @property
    def wake(self) -> Partition:
        """The partition that may hold a hint for this session: none that worlds' hints lie in."""
        shard = int.from_bytes(short_hash(self.storage, self.session).encode()[:4]) % WAKE_SHARDS
        return session_wake_partition(shard)

    def hint_sort(self, at: Instant) -> str:
        """Spell the session's hint for the minute of ``at``."""
        return f"{number(at // MINUTE_MS)}{self._hint}"

    def is_hint(self, sort: str) -> bool:
        """Say whether a hint, as :meth:`hint_sort` spells it, is one of this session."""
        minute = sort.removesuffix(self._hint)
        return minute != sort and minute.isdecimal()

    @property
    def _hint(self) -> str:
        return f"/{short_hash(self.storage)}/{short_hash(self.session)}"


def session_wake_partition(shard: int) -> Partition:
    """Return one of the WAKE_SHARDS partitions of hints for sessions."""
    return Partition(f"wake/s{shard}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Session(Record):
    """Identity of a session, in its catalog."""

    immutable: ClassVar[bool] = True

    storage: StorageId
    session: SessionId
    agent: str
    owner: str | None
    """Who created it and alone may send to it; None for somebody trusted."""

    lineage: Lineage
    created_at: Instant
    ceiling_bytes: int
    retained: bool = False
    """Nobody will prune it: what it is refused for its size is refused for good."""

    evidence: bool = False
    """The facts of each run are written as rows of a private world, too."""

    app: str = ""

    @property
    def ref(self) -> SessionRef:
        return SessionRef(self.storage, self.session)

    @property
    def key(self) -> Key[Session]:
        return session_key(self.ref)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionHead(Record):
    """The one record that every commit to a session writes; at most 1 KB."""

    later: ClassVar[Mapping[str, Any]] = {"evidence_due": 0, "evidence_through": 0}

    lineage: Lineage
    fence: Fence = field(default_factory=Fence)
    seq: Seq = Seq(0)
    digest: str = ""
    bytes: int = 0
    runs: int = 0
    """Runs that have begun: the number of the present episode."""

    run: AgentRunId | None = None
    run_state: RunState = "idle"
    cancel: CancelAt | None = None
    """That the present run shall end."""

    queued: int = 0
    approvals: int = 0
    """Calls that wait for somebody's word."""

    requires: tuple[str, ...] = ()
    """Every feature that a frame of the journal requires."""

    hint: str | None = None
    """Where the hint lies by which the session is found; None if nothing is to be done."""

    evidence_due: Seq = Seq(0)
    """End of the last run whose facts are to be evidence; 0 if that was never asked for."""

    evidence_through: Seq = Seq(0)
    """End of the last run whose facts are evidence."""

    @property
    def key(self) -> Key[SessionHead]:
        return session_head_key(self.partition)

    @property
    def place(self) -> Place:
        return Place(self.seq, self.digest)

    @property
    def has_work(self) -> bool:
        """Say whether somebody must go on with it, as far as nobody is waited for."""
        waits = self.queued > 0 or self.lacks_evidence
        return self.run_state == "active" or (self.run_state == "idle" and waits)

    @property
    def lacks_evidence(self) -> bool:
        """Say whether a run has ended whose facts are still to be written as evidence."""
        return self.evidence_due > self.evidence_through


@dataclass(frozen=True, slots=True, kw_only=True)
class SendKey(Record):
    """What a send produced, and what was sent, field by field: the same answer for ever."""

    immutable: ClassVar[bool] = True
    later: ClassVar[Mapping[str, Any]] = {"first": None}

    send: SendId
    delivery: str
    run: AgentRunId
    """The run that it began or will begin, or that it was steered into."""

    asked_run: AgentRunId | None
    """The run that the sender named."""

    input_sha256: str
    overrides_sha256: str
    how: How
    seq: Seq
    first: SendId | None = None
    """The send that had asked for the same run before, of one that so brought nothing new."""

    @property
    def key(self) -> Key[SendKey]:
        return send_key(self.partition, self.send)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunKey(Record):
    """Claim of a run's id: what it was asked for with."""

    immutable: ClassVar[bool] = True

    run: AgentRunId
    digest: str
    """Over input, overrides and scope as they were sent."""

    send: SendId

    @property
    def key(self) -> Key[RunKey]:
        return run_key(self.partition, self.run)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnd(Record):
    """The one end of a run."""

    immutable: ClassVar[bool] = True

    run: AgentRunId
    reason: Reason
    usage: Usage
    code: str | None
    seq: Seq
    at: Instant

    @property
    def key(self) -> Key[RunEnd]:
        return run_end_key(self.partition, self.run)


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission(Record):
    """A send that was queued, and whether it still waits."""

    send: SendId
    run: AgentRunId
    state: Waiting = "pending"

    @property
    def key(self) -> Key[Submission]:
        return submission_key(self.partition, self.send)


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval(Record):
    """A call that waits, or waited, for somebody's word."""

    call: CallKey
    tool_call_id: str
    tool: str
    run: AgentRunId
    requested_at: Instant
    decision: Decided | None = None
    actor: str | None = None

    @property
    def key(self) -> Key[Approval]:
        return approval_key(self.partition, self.call)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionWake(Record):
    """Hint that a session has something to do; the truth is its head."""

    sort: str
    storage: StorageId
    session: SessionId
    at: Instant

    @property
    def key(self) -> Key[SessionWake]:
        return Key(self.partition, self.sort, SessionWake)

    @property
    def ref(self) -> SessionRef:
        return SessionRef(self.storage, self.session)


def session_key(ref: SessionRef) -> Key[Session]:
    return Key(ref.catalog, f"session/{ref.session}", Session)


def session_head_key(session: Partition) -> Key[SessionHead]:
    return Key(session, "head", SessionHead)


def send_key(session: Partition, send: SendId) -> Key[SendKey]:
    return Key(session, f"key/send/{send}", SendKey)


def run_key(session: Partition, run: AgentRunId) -> Key[RunKey]:
    return Key(session, f"key/run/{run}", RunKey)


def run_end_key(session: Partition, run: AgentRunId) -> Key[RunEnd]:
    return Key(session, f"end/{run}", RunEnd)


def submission_key(session: Partition, send: SendId) -> Key[Submission]:
    return Key(session, f"submission/{send}", Submission)


def approval_key(session: Partition, call: CallKey) -> Key[Approval]:
    return Key(session, f"approval/{call}", Approval)


def session_wake_key(wake: Partition, sort: str) -> Key[SessionWake]:
    return Key(wake, sort, SessionWake)


def hint_of(ref: SessionRef, at: Instant) -> SessionWake:
    """Return the hint of a session for the minute of ``at``."""
    return SessionWake(
        partition=ref.wake, sort=ref.hint_sort(at), storage=ref.storage, session=ref.session, at=at
    )
