"""Sends: what is delivered to a session, once for each id, whatever state its run is in."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from perdure.kernel import limits
from perdure.kernel.caller import LOCAL, Caller
from perdure.kernel.canonical import canonical, digest
from perdure.kernel.errors import (
    Conflict,
    Contended,
    NotOwner,
    QueueFull,
    RunPaused,
    SendIdReuse,
    TooLarge,
    UnknownAgent,
    UnknownDelivery,
)
from perdure.kernel.ids import AgentRunId, Instant, SendId, Seq, SessionId, Token, checked_id
from perdure.kernel.session.config import RunConfig, Scope
from perdure.kernel.session.facts import (
    Delivery,
    Queued,
    QueuedRequest,
    Reason,
    RunCancelRequested,
    RunStarted,
    Steered,
)
from perdure.kernel.session.frames import Prepared, prepared
from perdure.kernel.session.journal import SessionRequest, added, existing, nudged
from perdure.kernel.session.records import (
    How,
    RunKey,
    SendKey,
    Session,
    SessionHead,
    Submission,
    run_end_key,
    run_key,
    send_key,
    session_head_key,
    session_key,
    submission_key,
)
from perdure.kernel.shown import shown
from perdure.kernel.view import Decision, Reads, View, Write

DELIVERIES = get_args(Delivery)


@dataclass(frozen=True, slots=True)
class SendReply:
    """Where a send stands: it runs, waits, was taken back, or the run that had it is over."""

    state: Literal["active", "paused", "pending", "retracted", "finished"]
    run_id: AgentRunId
    submission_id: SendId | None = None
    reason: Reason | None = None
    code: str | None = None
    replayed: bool = False


@dataclass(frozen=True, slots=True)
class Wish:
    """What somebody wants delivered, as they said it."""

    send: SendId
    input: str
    delivery: str = "queue"
    run: AgentRunId | None = None
    overrides: dict[str, Any] | None = None
    title: str | None = None

    def checked(self) -> Wish:
        """Return self if ids, delivery and sizes are as they must be.

        Raises: InvalidId, UnknownDelivery, TooLarge.
        """
        checked_id(self.send, what="a send id", bytes_max=limits.SEND_ID_BYTES_MAX)
        if self.run is not None:
            checked_id(self.run, what="a run id", bytes_max=limits.SEND_ID_BYTES_MAX)
        if self.delivery not in DELIVERIES:
            raise UnknownDelivery(
                expected=f"delivery to be one of {', '.join(DELIVERIES)}",
                found=shown(self.delivery),
            )
        size = len(self.input.encode(errors="surrogatepass"))
        if size > limits.INPUT_BYTES_MAX:
            raise TooLarge(
                expected=f"an input of at most {limits.INPUT_BYTES_MAX} bytes", found=str(size)
            )
        return self

    @property
    def input_sha256(self) -> str:
        return hashlib.sha256(canonical(self.input)).hexdigest()

    @property
    def overrides_sha256(self) -> str:
        return hashlib.sha256(canonical(self.overrides or {})).hexdigest()

    @property
    def run_id(self) -> AgentRunId:
        """The run that it begins, unless it joins another."""
        return AgentRunId(self.send) if self.run is None else self.run


@dataclass(frozen=True, slots=True)
class Send(SessionRequest):
    """Deliver something to a session, at most once for each send id.

    An idle session begins a run. While one runs, ``queue`` waits for its end, ``steer`` joins
    it, ``interrupt`` ends it and comes next. No fence is needed: whoever holds it meets this
    before anything else it writes.
    Raises: NotFound, NotOwner, SendIdReuse, Conflict for a run id with other content,
    RunPaused, QueueFull, SessionTooLarge kinds, UnknownAgent, NewerWriter.
    """

    wish: Wish
    config: RunConfig | None
    """How a run that begins now is done: the agent's, with the wish's overrides. None if the
    application has no such agent any more: then only what was sent before is answered."""

    append: Token
    by: Caller = LOCAL

    def reads(self) -> Reads:
        partition, wish = self.ref.partition, self.wish
        keys = (
            session_head_key(partition),
            send_key(partition, wish.send),
            run_key(partition, wish.run_id),
        )
        return Reads(keys=keys, peeks=(session_key(self.ref),))

    def large(self, session_owner: str | None) -> Iterator[Prepared]:
        """Yield the payloads that must lie in objects, whatever the session's state is."""
        scope = self._scope(session_owner)
        if self.config is None:
            return
        candidates = [self._started(self.config, scope), self._queued(scope)]
        if self.wish.delivery == "steer":  # between two runs it waits, like any other
            candidates.append(self._steered())
        yield from (each for each in candidates if each.is_large)

    def decide(self, view: View, now: Instant) -> Decision[SendReply]:
        session, head = existing(view, self.ref)
        check_owner(session, self.by)
        wish = self.wish
        known = view.get(send_key(head.partition, wish.send))
        if known is not None:
            self._check_same(known)
            return Decision(_standing(view, head, known, replayed=True))
        scope = self._scope(session.owner)
        claimed = None
        if wish.delivery != "steer" or head.run_state == "idle":
            claimed = view.get(run_key(head.partition, wish.run_id))
        if claimed is not None:
            return self._of_run(view, head, claimed, scope)
        self._check_let_in(head)
        if self.config is None:
            raise UnknownAgent(
                expected=f"agent {session.agent!r} of session {self.ref.session!r}", found="none"
            )
        if head.run_state == "idle" and not head.queued:
            started = self._started(self.config, scope)
            return self._begin(view, session, head, started, now)
        if wish.delivery == "steer" and head.run_state == "active":
            return self._steer(view, session, head, now)
        return self._queue(view, session, head, scope, now)

    def _check_let_in(self, head: SessionHead) -> None:
        """Refuse what a paused run, or a full queue, lets nobody in for. Raises as sending does."""
        if head.run_state == "paused":
            raise RunPaused(
                expected=f"a run that goes on in session {self.ref.session!r}",
                found=f"run {head.run!r}, which waits for {head.approvals} approvals",
            )
        joins = self.wish.delivery == "steer" and head.run_state == "active"
        if not joins and head.queued >= limits.QUEUED_SENDS_MAX:
            raise QueueFull(
                expected=f"fewer than {limits.QUEUED_SENDS_MAX} sends that wait",
                found=str(head.queued),
            )

    def _begin(
        self, view: View, session: Session, head: SessionHead, started: Prepared, now: Instant
    ) -> Decision[SendReply]:
        run, scope = self.wish.run_id, self._scope(session.owner)
        add = added(view, session, head, (started,), append=self.append, now=now)
        after = replace(
            add.head, run=run, run_state="active", cancel=None, approvals=0, runs=head.runs + 1
        )
        after, hints = nudged(view, self.ref, after, now)
        writes = (*add.writes, *hints, self._claim(head, scope), self._key(head, "started", run))
        return Decision(SendReply("active", run), (*writes, after))

    def _steer(
        self, view: View, session: Session, head: SessionHead, now: Instant
    ) -> Decision[SendReply]:
        if head.run is None:
            raise torn("the run of an active session")
        add = added(view, session, head, (self._steered(),), append=self.append, now=now)
        key = self._key(head, "steered", head.run)
        return Decision(SendReply("active", head.run), (*add.writes, key, add.head))

    def _queue(
        self, view: View, session: Session, head: SessionHead, scope: Scope | None, now: Instant
    ) -> Decision[SendReply]:
        wish, run = self.wish, self.wish.run_id
        facts = [self._queued(scope)]
        cancel = head.cancel
        if wish.delivery == "interrupt" and head.run is not None and cancel != "now":
            facts.append(prepared(RunCancelRequested(run_id=head.run, at="now")))
            cancel = "now"
        add = added(view, session, head, facts, append=self.append, now=now)
        after = replace(add.head, queued=head.queued + 1, cancel=cancel)
        after, hints = nudged(view, self.ref, after, now)
        waiting = Submission(partition=head.partition, send=wish.send, run=run)
        writes = (*add.writes, *hints, waiting, self._claim(head, scope))
        key = self._key(head, "queued", run)
        return Decision(SendReply("pending", run, wish.send), (*writes, key, after))

    def _check_same(self, known: SendKey) -> None:
        wish = self.wish
        asked = {
            "delivery": (known.delivery, wish.delivery),
            "run_id": (known.asked_run, wish.run),
            "input": (known.input_sha256, wish.input_sha256),
            "overrides": (known.overrides_sha256, wish.overrides_sha256),
        }
        for field, (was, now) in asked.items():
            if was != now:
                raise SendIdReuse(
                    expected=f"send {wish.send!r} with the {field} it was first sent with",
                    found=f"another {field}",
                )

    def _of_run(
        self, view: View, head: SessionHead, claimed: RunKey, scope: Scope | None
    ) -> Decision[SendReply]:
        """Answer a send whose run is known under another send id, and remember its own."""
        if claimed.digest != self._digest(scope):
            raise Conflict(
                expected=f"run {claimed.run!r} with the input and overrides it was started with",
                found="others",
            )
        known = view.get(send_key(head.partition, claimed.send))
        if known is None:
            raise torn(f"the send that claimed run {claimed.run!r}")
        reply = _standing(view, head, known, replayed=True)
        again = replace(self._key(head, known.how, known.run), seq=known.seq, first=known.send)
        return Decision(reply, (again,))

    def _claim(self, head: SessionHead, scope: Scope | None) -> Write:
        wish = self.wish
        return RunKey(
            partition=head.partition, run=wish.run_id, digest=self._digest(scope), send=wish.send
        )

    def _key(self, head: SessionHead, how: How, run: AgentRunId) -> SendKey:
        wish = self.wish
        return SendKey(
            partition=head.partition,
            send=wish.send,
            delivery=wish.delivery,
            run=run,
            asked_run=wish.run,
            input_sha256=wish.input_sha256,
            overrides_sha256=wish.overrides_sha256,
            how=how,
            seq=Seq(head.seq + 1),
        )

    def _digest(self, scope: Scope | None) -> str:
        owner = "" if scope is None else scope.owner
        parts = (self.wish.input_sha256, self.wish.overrides_sha256, owner)
        return digest("perdure.run.v1", *(part.encode() for part in parts))

    def _scope(self, owner: str | None) -> Scope | None:
        return None if owner is None else Scope(owner=owner, ref=self.ref.session)

    def _started(self, config: RunConfig, scope: Scope | None) -> Prepared:
        return prepared(
            RunStarted(
                run_id=self.wish.run_id,
                session_id=self.ref.session,
                config=config,
                input=self.wish.input,
                scope=scope,
            )
        )

    def _queued(self, scope: Scope | None) -> Prepared:
        wish = self.wish
        request = QueuedRequest(
            run_id=wish.run_id, input=wish.input, overrides=wish.overrides or {}, scope=scope
        )
        delivery: Literal["interrupt"] | None = None
        if wish.delivery == "interrupt":
            delivery = "interrupt"
        return prepared(
            Queued(submission_id=wish.send, request=request, title=wish.title, delivery=delivery)
        )

    def _steered(self) -> Prepared:
        wish = self.wish
        return prepared(
            Steered(
                send_id=wish.send,
                request_identity_digest=digest("perdure.steer.v1", wish.input_sha256.encode()),
                input=wish.input,
                title=wish.title,
            )
        )


def torn(expected: str) -> Contended:
    """Return the error for a commit that was seen in part: asked again, it is there whole."""
    return Contended(expected=expected, found="nothing: asked beside a commit")


def check_owner(session: Session, by: Caller) -> None:
    """Let only its owner change a session, and who is trusted in this process. Raises NotOwner."""
    check_owned(session.session, session.owner, by)


def check_owned(session: SessionId, owner: str | None, by: Caller) -> None:
    """Let only ``owner`` change a session, and who is trusted in this process. Raises NotOwner."""
    if by.origin != "local" and by.actor != owner:
        raise NotOwner(expected=f"the owner of session {session!r}", found="another caller")


def standing_of_run(view: View, head: SessionHead, run: AgentRunId, *, replayed: bool) -> SendReply:
    """Tell where a run that has begun stands."""
    if head.run == run:
        state: Literal["active", "paused"] = "paused" if head.run_state == "paused" else "active"
        return SendReply(state, run, replayed=replayed)
    end = view.get(run_end_key(head.partition, run))
    if end is None:
        raise torn(f"the end of run {run!r}, which is not the present one")
    return SendReply("finished", run, reason=end.reason, code=end.code, replayed=replayed)


def _standing(view: View, head: SessionHead, known: SendKey, *, replayed: bool) -> SendReply:
    if known.how == "queued":
        first = known.first or known.send
        waiting = view.get(submission_key(head.partition, first))
        if waiting is None:
            raise torn(f"the submission of send {first!r}")
        if waiting.state != "started":
            return SendReply(waiting.state, known.run, first, replayed=replayed)
    return standing_of_run(view, head, known.run, replayed=replayed)
