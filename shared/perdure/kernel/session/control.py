"""Control of runs by those who do not hold the fence: cancel, take back, approve."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from perdure.kernel.caller import LOCAL, Caller
from perdure.kernel.errors import AlreadyDecided, NotFound, NotRetractable
from perdure.kernel.ids import AgentRunId, CallKey, Instant, SendId, Token
from perdure.kernel.session.facts import (
    ApprovalResolved,
    CancelAt,
    Decided,
    Retracted,
    RunCancelRequested,
)
from perdure.kernel.session.frames import prepared
from perdure.kernel.session.journal import SessionRequest, added, existing, nudged
from perdure.kernel.session.records import (
    approval_key,
    run_end_key,
    run_key,
    session_head_key,
    session_key,
    submission_key,
)
from perdure.kernel.session.send import SendReply, check_owner, standing_of_run
from perdure.kernel.view import Decision, Reads, View, Write


@dataclass(frozen=True, slots=True)
class CancelRun(SessionRequest):
    """Ask for the end of a run: after its batch (``boundary``), or ``now``.

    ``now`` after ``boundary`` escalates; anything else asked again changes nothing, also of a
    run that is over. A paused run goes on, in order to end.
    Raises: NotFound, NotOwner; NotFound also for a run that has not begun.
    """

    run: AgentRunId
    at: CancelAt
    append: Token
    by: Caller = LOCAL

    def reads(self) -> Reads:
        keys = (session_head_key(self.ref.partition), run_end_key(self.ref.partition, self.run))
        return Reads(keys=keys, peeks=(session_key(self.ref),))

    def decide(self, view: View, now: Instant) -> Decision[SendReply]:
        session, head = existing(view, self.ref)
        check_owner(session, self.by)
        if head.run != self.run:
            end = view.get(run_end_key(head.partition, self.run))
            if end is None and view.get(run_key(head.partition, self.run)) is None:
                raise NotFound(expected="a run of this session", found=f"no run {self.run!r}")
            if end is None:
                raise NotFound(
                    expected="a run that has begun",
                    found=f"run {self.run!r}, which waits: take its send back instead",
                )
            return Decision(standing_of_run(view, head, self.run, replayed=True))
        if head.cancel in {"now", self.at}:
            return Decision(standing_of_run(view, head, self.run, replayed=True))
        fact = prepared(RunCancelRequested(run_id=self.run, at=self.at))
        add = added(view, session, head, (fact,), append=self.append, now=now, may_use_reserve=True)
        after = replace(add.head, cancel=self.at, run_state="active")
        after, hints = nudged(view, self.ref, after, now)
        return Decision(SendReply("active", self.run), (*add.writes, *hints, after))


@dataclass(frozen=True, slots=True)
class Retract(SessionRequest):
    """Take back a send that still waits. Again it changes nothing.

    Raises: NotFound, NotOwner; NotRetractable for one whose run has begun.
    """

    send: SendId
    append: Token
    by: Caller = LOCAL

    def reads(self) -> Reads:
        keys = (session_head_key(self.ref.partition), submission_key(self.ref.partition, self.send))
        return Reads(keys=keys, peeks=(session_key(self.ref),))

    def decide(self, view: View, now: Instant) -> Decision[SendReply]:
        session, head = existing(view, self.ref)
        check_owner(session, self.by)
        waiting = view.get(submission_key(head.partition, self.send))
        if waiting is None:
            raise NotFound(expected="a send that was queued", found=f"no queued {self.send!r}")
        if waiting.state == "started":
            raise NotRetractable(
                expected="a send that still waits", found=f"run {waiting.run!r}, which it began"
            )
        taken_back = SendReply("retracted", waiting.run, self.send)
        if waiting.state == "retracted":
            return Decision(replace(taken_back, replayed=True))
        fact = prepared(Retracted(submission_id=self.send))
        add = added(view, session, head, (fact,), append=self.append, now=now)
        after = replace(add.head, queued=head.queued - 1)
        return Decision(taken_back, (*add.writes, replace(waiting, state="retracted"), after))


@dataclass(frozen=True, slots=True)
class ApprovalReply:
    """What was decided of a call."""

    call_key: CallKey
    decision: Decided
    state: Literal["decided", "repeated"]
    waiting: int
    """Calls of the run that still wait for a word."""


@dataclass(frozen=True, slots=True)
class ResolveApproval(SessionRequest):
    """Say whether a call that waits may be made. The same word again changes nothing.

    With the last word the run goes on. Raises: NotFound, AlreadyDecided for another word, or
    for a call whose run is over.
    """

    call: CallKey
    decision: Decided
    append: Token
    detail: str | None = None
    by: Caller = LOCAL

    def reads(self) -> Reads:
        keys = (session_head_key(self.ref.partition), approval_key(self.ref.partition, self.call))
        return Reads(keys=keys, peeks=(session_key(self.ref),))

    def decide(self, view: View, now: Instant) -> Decision[ApprovalReply]:
        session, head = existing(view, self.ref)
        asked = view.get(approval_key(head.partition, self.call))
        if asked is None:
            raise NotFound(
                expected="a call that waits for a word", found=f"no call {self.call!r} that does"
            )
        if asked.decision == self.decision:
            return Decision(ApprovalReply(self.call, self.decision, "repeated", head.approvals))
        if asked.decision is not None or asked.run != head.run or head.cancel is not None:
            found = asked.decision or "an end of its run"
            raise AlreadyDecided(expected=f"call {self.call!r} to wait", found=found)
        fact = prepared(
            ApprovalResolved(
                tool_call_id=asked.tool_call_id,
                call_key=self.call,
                decision=self.decision,
                actor=self.by.actor,
                detail=self.detail,
            )
        )
        add = added(view, session, head, (fact,), append=self.append, now=now)
        waiting = head.approvals - 1
        after = replace(add.head, approvals=waiting, run_state="paused" if waiting else "active")
        hints: tuple[Write, ...] = ()
        if not waiting:
            after, hints = nudged(view, self.ref, after, now)
        decided = replace(asked, decision=self.decision, actor=self.by.actor)
        reply = ApprovalReply(self.call, self.decision, "decided", waiting)
        return Decision(reply, (*add.writes, *hints, decided, after))
