"""What the holder of a session's fence asks: the fence itself, and appends under it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from perdure.kernel.errors import Corrupt, FenceHeld, Invalid, StaleWriter
from perdure.kernel.ids import AgentRunId, Epoch, Holder, Instant, SendId, Seq, Token
from perdure.kernel.records import Fence
from perdure.kernel.session.facts import (
    ApprovalRequested,
    EvidenceWritten,
    Fact,
    Retracted,
    RunFinished,
    RunStarted,
)
from perdure.kernel.session.frames import Frame, Prepared, entry_key
from perdure.kernel.session.journal import SessionRequest, added, existing
from perdure.kernel.session.records import (
    Approval,
    RunEnd,
    Session,
    SessionHead,
    Submission,
    session_head_key,
    session_key,
    session_wake_key,
    submission_key,
)
from perdure.kernel.session.send import torn
from perdure.kernel.view import Decision, Reads, Removed, View, Write
from perdure.kernel.writers import check_grip


@dataclass(frozen=True, slots=True)
class SessionGrip:
    """A session's fence held: the epoch to append under, and until when."""

    epoch: Epoch
    holder: Holder
    until: Instant
    session: Session
    head: SessionHead


@dataclass(frozen=True, slots=True)
class TakeSession(SessionRequest):
    """Become the one who goes on with a session, if its fence is free, released or expired.

    The present holder keeps its epoch, and has its lease renewed. With ``epoch`` it is only
    renewed: whoever has lost it does not get it back. Raises FenceHeld, StaleWriter.
    """

    holder: Holder
    lease_ms: int
    epoch: Epoch | None = None

    def checked(self) -> TakeSession:
        """Return self if holder and lease are within the limits. Raises Invalid."""
        check_grip(self.holder, self.lease_ms)
        return self

    def reads(self) -> Reads:
        return Reads(keys=(session_head_key(self.ref.partition),), peeks=(session_key(self.ref),))

    def decide(self, view: View, now: Instant) -> Decision[SessionGrip]:
        session, head = existing(view, self.ref)
        fence, until = head.fence, Instant(now + self.lease_ms)
        if self.epoch is not None and (fence.epoch, fence.holder) != (self.epoch, self.holder):
            raise StaleWriter(
                expected=f"epoch {self.epoch} on session {self.ref.session!r}",
                found=f"epoch {fence.epoch}",
            )
        if fence.holder != self.holder and fence.is_held(now):
            raise FenceHeld(
                expected=f"a free fence on session {self.ref.session!r}",
                found=f"epoch {fence.epoch} held for {fence.until - now} ms more",
            )
        epoch = fence.epoch if fence.holder == self.holder else Epoch(fence.epoch + 1)
        taken = replace(head, fence=Fence(epoch=epoch, holder=self.holder, until=until))
        return Decision(SessionGrip(epoch, self.holder, until, session, taken), (taken,))


@dataclass(frozen=True, slots=True)
class ReleaseSession(SessionRequest):
    """Let go of a session. One whose fence is another's by now is left alone."""

    holder: Holder
    epoch: Epoch

    def reads(self) -> Reads:
        return Reads(keys=(session_head_key(self.ref.partition),), peeks=(session_key(self.ref),))

    def decide(self, view: View, now: Instant) -> Decision[None]:
        _, head = existing(view, self.ref)
        if (head.fence.epoch, head.fence.holder) != (self.epoch, self.holder):
            return Decision(None)
        return Decision(None, (replace(head, fence=released(head.fence)),))


@dataclass(frozen=True, slots=True)
class Appended:
    """An append that is durable: the head after it, and its frames."""

    head: SessionHead
    frames: tuple[Frame, ...]
    replayed: bool = False
    """It had landed before, unanswered; ``head`` is as it is now."""


@dataclass(frozen=True, slots=True)
class Behind:
    """Nothing was written: others have written what must be folded first."""

    seq: Seq


@dataclass(frozen=True, slots=True)
class Append(SessionRequest):
    """Add facts to a journal as the holder of its fence.

    It names the seq that its writer has folded; if the journal is past that, the answer is
    Behind, and the writer thinks again. Its ``append`` is drawn once for what is written, so
    that it is known again if an answer was lost.
    Raises: StaleWriter, SessionTooLarge kinds, Corrupt; Contended beside a commit under way.
    """

    epoch: Epoch
    holder: Holder
    seen: Seq
    facts: Sequence[Prepared]
    append: Token
    lease_ms: int
    """The lease that runs from this commit on."""

    is_close_out: bool = False
    """It may use what is kept free for the end of a run."""

    def checked(self) -> Append:
        """Return self if it says something. Raises Invalid."""
        if not self.facts:
            raise Invalid(expected="at least one fact to append", found="none")
        return self

    def reads(self) -> Reads:
        return Reads(keys=(session_head_key(self.ref.partition),), peeks=(session_key(self.ref),))

    def large(self) -> Iterator[Prepared]:
        """Yield the payloads that must lie in objects before this is asked."""
        yield from (each for each in self.facts if each.is_large)

    def decide(self, view: View, now: Instant) -> Decision[Appended | Behind]:
        session, head = existing(view, self.ref)
        if head.seq > self.seen:
            landed = view.peek(entry_key(head.partition, Seq(self.seen + 1)))
            if landed is None:  # it may be this very append, without an answer
                raise torn(f"the entry behind frame {self.seen}")
            if landed.append == self.append:
                return Decision(Appended(head, landed.frames, replayed=True))
        if (head.fence.epoch, head.fence.holder) != (self.epoch, self.holder):
            raise StaleWriter(
                expected=f"epoch {self.epoch} on session {self.ref.session!r}",
                found=f"epoch {head.fence.epoch}",
            )
        if head.seq > self.seen:
            return Decision(Behind(head.seq))
        if head.seq < self.seen:
            raise torn(f"a head at frame {self.seen}, which was read")
        return self._written(view, session, head, now)

    def _written(
        self, view: View, session: Session, head: SessionHead, now: Instant
    ) -> Decision[Appended | Behind]:
        add = added(
            view,
            session,
            head,
            self.facts,
            append=self.append,
            now=now,
            may_use_reserve=self.is_close_out,
        )
        after, more = add.head, []
        for each, frame in zip(self.facts, add.frames, strict=True):
            after, writes = _applied(view, after, each.fact, frame.seq, now)
            more += writes
            if session.evidence and isinstance(each.fact, RunFinished):
                after = replace(after, evidence_due=frame.seq)
        fence = replace(after.fence, until=Instant(now + self.lease_ms))
        after = replace(after, fence=fence)
        return Decision(Appended(after, add.frames), (*add.writes, *more, after))


def released(fence: Fence) -> Fence:
    """Return the fence free, its epoch kept."""
    return Fence(epoch=fence.epoch)


def _applied(
    view: View, head: SessionHead, fact: Fact, seq: Seq, now: Instant
) -> tuple[SessionHead, list[Write]]:
    """Return what a fact changes beside the journal."""
    match fact:
        case RunStarted():
            return _begun(view, head, fact)
        case Retracted():
            waiting = _waiting(view, head, fact.submission_id)
            after = replace(head, queued=head.queued - 1)
            return after, [replace(waiting, state="retracted")]
        case RunFinished():
            if head.run != fact.run_id:
                raise Corrupt(expected=f"run {fact.run_id!r} to be running", found=str(head.run))
            end = RunEnd(
                partition=head.partition,
                run=fact.run_id,
                reason=fact.reason,
                usage=fact.usage,
                code=fact.code,
                seq=seq,
                at=now,
            )
            idle = replace(head, run=None, run_state="idle", cancel=None, approvals=0)
            return idle, [end]
        case EvidenceWritten():
            return replace(head, evidence_through=Seq(fact.through_seq)), []
        case ApprovalRequested():
            asked = Approval(
                partition=head.partition,
                call=fact.call_key,
                tool_call_id=fact.tool_call_id,
                tool=fact.tool_name,
                run=_present(head),
                requested_at=now,
            )
            return replace(head, approvals=head.approvals + 1, run_state="paused"), [asked]
        case _:
            return head, []


def _begun(view: View, head: SessionHead, fact: RunStarted) -> tuple[SessionHead, list[Write]]:
    """Begin a run that was queued."""
    if head.run is not None or fact.submission_id is None:
        raise Corrupt(expected="no run before a queued one begins", found=str(head.run))
    waiting = _waiting(view, head, fact.submission_id)
    begun = replace(
        head,
        run=fact.run_id,
        run_state="active",
        cancel=None,
        approvals=0,
        runs=head.runs + 1,
        queued=head.queued - 1,
    )
    return begun, [replace(waiting, state="started")]


def _waiting(view: View, head: SessionHead, send: SendId) -> Submission:
    waiting = view.get(submission_key(head.partition, send))
    if waiting is None or waiting.state != "pending":
        raise torn(f"submission {send!r} to wait")
    return waiting


def _present(head: SessionHead) -> AgentRunId:
    assert head.run is not None, "only a run's calls wait for approval"
    return head.run


Rest = Literal["due", "held", "rests"]
"""What a session that a hint names is found to be: held is due, and somebody is at it."""


@dataclass(frozen=True, slots=True)
class RestSession(SessionRequest):
    """Take away the hint by which a session was found, if it has nothing to do, or tell that it has.

    A hint leaves only together with a write of the head: one that no head names may have left
    already, with a commit that shows in part. A hint of a session that is not there stays.
    """

    hint: str

    def reads(self) -> Reads:
        partition = self.ref.partition
        hint = session_wake_key(self.ref.wake, self.hint)
        return Reads(keys=(session_head_key(partition), hint), peeks=(session_key(self.ref),))

    def decide(self, view: View, now: Instant) -> Decision[Rest]:
        hint = view.get(session_wake_key(self.ref.wake, self.hint))
        head = view.get(session_head_key(self.ref.partition))
        gone: tuple[Write, ...] = () if hint is None else (Removed(hint.key),)
        if head is None:
            return Decision("rests")
        if head.has_work and head.hint == self.hint:
            return Decision("held" if head.fence.is_held(now) else "due")
        if head.hint != self.hint:
            return Decision("rests", (*gone, head) if gone else ())
        return Decision("rests", (*gone, replace(head, hint=None)))
