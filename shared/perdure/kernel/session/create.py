"""Creation of a session, and what can be told of one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from perdure.kernel import limits
from perdure.kernel.caller import LOCAL, Caller
from perdure.kernel.errors import Conflict, Contended, Invalid
from perdure.kernel.floor import check_floor, floor_key
from perdure.kernel.ids import (
    AgentRunId,
    Epoch,
    Instant,
    Lineage,
    Partition,
    Seq,
    SessionId,
    StorageId,
    Token,
    checked_id,
)
from perdure.kernel.places import after, catalog_partition
from perdure.kernel.session.facts import CancelAt, JournalBegun
from perdure.kernel.session.frames import prepared
from perdure.kernel.session.journal import SessionRequest, added, whole_session
from perdure.kernel.session.records import (
    Approval,
    RunState,
    Session,
    SessionHead,
    session_head_key,
    session_key,
)
from perdure.kernel.view import Decision, Range, Reads, View


@dataclass(frozen=True, slots=True)
class WaitingCall:
    """A call that waits for somebody's word."""

    call_key: str
    tool_call_id: str
    tool: str
    requested_at: Instant


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """What is told of a session without reading its journal."""

    session_id: SessionId
    agent: str
    owner: str | None
    lineage: Lineage
    created_at: Instant
    run_state: RunState
    run_id: AgentRunId | None
    cancel: CancelAt | None
    runs: int
    seq: Seq
    bytes: int
    ceiling_bytes: int
    retained: bool
    evidence: bool
    queued: int
    epoch: Epoch
    fence_held_until: Instant | None
    waiting_calls: tuple[WaitingCall, ...] = ()
    lacks_evidence: bool = False
    """A run has ended whose facts are still to be written as evidence."""


def told(session: Session, head: SessionHead, waiting: tuple[WaitingCall, ...] = ()) -> SessionInfo:
    """Put catalog record and head together."""
    return SessionInfo(
        session_id=session.session,
        agent=session.agent,
        owner=session.owner,
        lineage=session.lineage,
        created_at=session.created_at,
        run_state=head.run_state,
        run_id=head.run,
        cancel=head.cancel,
        runs=head.runs,
        seq=head.seq,
        bytes=head.bytes,
        ceiling_bytes=session.ceiling_bytes,
        retained=session.retained,
        evidence=session.evidence,
        queued=head.queued,
        epoch=head.fence.epoch,
        fence_held_until=None if head.fence.holder is None else head.fence.until,
        waiting_calls=waiting,
        lacks_evidence=head.lacks_evidence,
    )


@dataclass(frozen=True, slots=True)
class CreateSession(SessionRequest):
    """Begin a session: catalog record, head and the first frame in one commit.

    The same id with the same identity changes nothing; with another it is a Conflict.
    """

    agent: str
    lineage: Lineage
    append: Token
    ceiling_bytes: int = limits.JOURNAL_BYTES_MAX
    retained: bool = False
    evidence: bool = False
    app: str = ""
    by: Caller = LOCAL

    def checked(self) -> CreateSession:
        """Return self if ids and sizes are within the limits. Raises Invalid kinds."""
        checked_id(self.ref.session, what="a session id")
        checked_id(self.agent, what="an agent's name")
        least = 2 * limits.CLOSE_OUT_BYTES
        if not least <= self.ceiling_bytes <= limits.JOURNAL_BYTES_MAX:
            raise Invalid(
                expected=f"a ceiling of {least} to {limits.JOURNAL_BYTES_MAX} bytes",
                found=str(self.ceiling_bytes),
            )
        return self

    def reads(self) -> Reads:
        return Reads(
            keys=(
                session_key(self.ref),
                session_head_key(self.ref.partition),
                floor_key(self.ref.catalog),
            )
        )

    def decide(self, view: View, now: Instant) -> Decision[SessionInfo]:
        session = view.get(session_key(self.ref))
        head = view.get(session_head_key(self.ref.partition))
        if session is not None and head is not None:
            return Decision(told(self._same(session), head))
        if session is not None or head is not None:
            raise Contended(
                expected=f"all of session {self.ref.session!r} or nothing",
                found="a part: its creation is running",
            )
        check_floor(view, self.ref.catalog)
        session = Session(
            partition=self.ref.catalog,
            storage=self.ref.storage,
            session=self.ref.session,
            agent=self.agent,
            owner=self.by.actor,
            lineage=self.lineage,
            created_at=now,
            ceiling_bytes=self.ceiling_bytes,
            retained=self.retained,
            evidence=self.evidence,
            app=self.app,
        )
        fresh = SessionHead(partition=self.ref.partition, lineage=self.lineage)
        begun = JournalBegun(lineage=self.lineage, session_id=self.ref.session)
        add = added(view, session, fresh, (prepared(begun),), append=self.append, now=now)
        return Decision(told(session, add.head), (session, *add.writes, add.head))

    def _same(self, session: Session) -> Session:
        asked = (self.agent, self.by.actor, self.ceiling_bytes, self.retained, self.evidence)
        found = (
            session.agent,
            session.owner,
            session.ceiling_bytes,
            session.retained,
            session.evidence,
        )
        if asked != found:
            raise Conflict(
                expected=f"session {self.ref.session!r} with the identity it was created with"
                " (agent, owner, ceiling, retained, evidence)",
                found="another",
            )
        return session


@dataclass(frozen=True, slots=True)
class DescribeSession(SessionRequest):
    """Tell what is known of one session, and which of its calls wait for a word."""

    def _approvals(self) -> Range[Approval]:
        return Range(self.stream, "approval/", after("approval/"), Approval)

    def reads(self) -> Reads:
        keys = (session_key(self.ref), session_head_key(self.ref.partition))
        return Reads(peeks=keys)

    def decide(self, view: View, now: Instant) -> Decision[SessionInfo]:
        session = view.peek(session_key(self.ref))
        head = view.peek(session_head_key(self.ref.partition))
        session, head = whole_session(self.ref, session, head)
        if not head.approvals:
            return Decision(told(session, head))
        waiting = tuple(
            WaitingCall(each.call, each.tool_call_id, each.tool, each.requested_at)
            for each in view.find(self._approvals())
            if each.decision is None and each.run == head.run
        )
        return Decision(told(session, head, waiting))


@dataclass(frozen=True, slots=True)
class DiscoverSessions:
    """List the sessions of a storage by id: all, or those of one owner."""

    storage: StorageId
    after: SessionId | None
    limit: int
    owner: str | None = None

    once: ClassVar[bool] = False

    @property
    def stream(self) -> Partition:
        return Partition(f"{catalog_partition(self.storage)}#sessions")

    def _range(self) -> Range[Session]:
        first = "session/" if self.after is None else f"session/{self.after}\0"
        catalog = catalog_partition(self.storage)
        return Range(catalog, first, after("session/"), Session, limit=self.limit)

    def reads(self) -> Reads:
        return Reads(ranges=(self._range(),))

    def decide(
        self, view: View, now: Instant
    ) -> Decision[tuple[tuple[SessionInfo, ...], SessionId | None]]:
        found = view.find(self._range())
        ours = [each for each in found if self.owner is None or each.owner == self.owner]
        heads = [session_head_key(each.ref.partition) for each in ours]
        view.require(peeks=heads)
        infos: list[SessionInfo] = []
        for session, key in zip(ours, heads, strict=True):
            head = view.peek(key)
            if head is None:
                raise Contended(
                    expected=f"all of session {session.session!r}",
                    found="a part: asked beside a commit",
                )
            infos.append(told(session, head))
        more = found[-1].session if len(found) == self.limit else None
        return Decision((tuple(infos), more))
