"""The rules of those who talk with sessions, and of the one who goes on with them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule
from tests.proof.agreeing import LEASE_MS, STORAGE, Agreeing, few, lots

from perdure.kernel.caller import Caller
from perdure.kernel.ids import AgentRunId, CallKey, Holder, Instant, Lineage, SendId, Seq, Token
from perdure.kernel.session.config import RunConfig
from perdure.kernel.session.control import CancelRun, ResolveApproval, Retract
from perdure.kernel.session.create import CreateSession, DescribeSession, DiscoverSessions
from perdure.kernel.session.facts import (
    ApprovalRequested,
    Fact,
    Retracted,
    RunFinished,
    RunStarted,
    StepStarted,
)
from perdure.kernel.session.frames import PayloadRef, prepared
from perdure.kernel.session.mark import FoldMark, ReadMark, SetMark
from perdure.kernel.session.messages import Usage
from perdure.kernel.session.owner import Append, ReleaseSession, RestSession, TakeSession
from perdure.kernel.session.read import ProveGap, ReadJournal
from perdure.kernel.session.records import SessionHead, SessionRef, approval_key, session_head_key
from perdure.kernel.session.send import Send, Wish
from perdure.kernel.session.transcript import ReadEntries
from perdure.kernel.session.wakes import SessionWakes

CONFIG = RunConfig(agent="pilot", model="scripted", system="", max_steps=8)
OWNERS = st.sampled_from([Caller(), Caller("ann", "gateway"), Caller("bob", "gateway")])
DELIVERIES = st.sampled_from(["queue", "queue", "steer", "interrupt"])
WORKERS = st.sampled_from(["ann", "ann", "eve"])


class Talking(Agreeing):
    """What is asked of sessions."""

    def talk(self, lot: int) -> SessionRef:
        return SessionRef(STORAGE, f"talk{lot % 3}")

    def drawn(self, what: str) -> Token:
        return Token(f"{what}-{next(self.numbers)}")

    def session_head(self, ref: SessionRef) -> SessionHead:
        found: SessionHead | None = self.three.held(session_head_key(ref.partition))
        return SessionHead(partition=ref.partition, lineage="") if found is None else found

    @rule(lot=few, by=OWNERS, agent=st.sampled_from(["pilot", "pilot", "other"]))
    def begin_a_session(self, lot: int, by: Caller, agent: str) -> None:
        lineage = Lineage(self.drawn("lineage"))
        self.ask(CreateSession(self.talk(lot), agent, lineage, self.drawn("append"), by=by))

    @rule(lot=few, send=few, delivery=DELIVERIES, text=st.sampled_from("ab"), by=OWNERS)
    def send(self, lot: int, send: int, delivery: str, text: str, by: Caller) -> None:
        self._send(lot, Wish(SendId(f"send-{send}"), text, delivery), by)

    @rule(lot=few, delivery=DELIVERIES)
    def send_anew(self, lot: int, delivery: str) -> None:
        self._send(lot, Wish(SendId(self.drawn("send")), "anew", delivery, title="T"), Caller())

    def _send(self, lot: int, wish: Wish, by: Caller) -> None:
        self.ask(Send(self.talk(lot), wish, CONFIG, self.drawn("append"), by))

    @rule(lot=few, at=st.sampled_from(["boundary", "now"]), by=OWNERS)
    def cancel_a_run(self, lot: int, at: Any, by: Caller) -> None:
        run = self.session_head(self.talk(lot)).run or AgentRunId("send-0")
        self.ask(CancelRun(self.talk(lot), run, at, self.drawn("append"), by))

    @rule(lot=few, number=lots, by=OWNERS)
    def take_a_send_back(self, lot: int, number: int, by: Caller) -> None:
        send = SendId(self._waiting(lot, number) or "send-1")
        self.ask(Retract(self.talk(lot), send, self.drawn("append"), by))

    def _waiting(self, lot: int, number: int) -> str | None:
        sorts = self.three.keys_under(self.talk(lot).partition, "submission/")
        return sorts[number % len(sorts)].removeprefix("submission/") if sorts else None

    @rule(lot=few, number=lots, word=st.sampled_from(["approved", "denied"]))
    def say_a_word(self, lot: int, number: int, word: Any) -> None:
        ref = self.talk(lot)
        sorts = self.three.keys_under(ref.partition, "approval/")
        call = sorts[number % len(sorts)].removeprefix("approval/") if sorts else "none"
        self.ask(ResolveApproval(ref, CallKey(call), word, self.drawn("append")))

    @rule(lot=few, holder=WORKERS, leaves=st.booleans())
    def hold_a_session(self, lot: int, holder: str, *, leaves: bool) -> None:
        grip = self.ask(TakeSession(self.talk(lot), Holder(holder), LEASE_MS))
        if grip is not None and leaves:
            self.ask(ReleaseSession(self.talk(lot), Holder(holder), grip.epoch))

    @rule(lot=few, holder=WORKERS, number=lots, behind=few, again=st.booleans())
    def go_on(self, lot: int, holder: str, number: int, behind: int, *, again: bool) -> None:
        """Append what may come next, now and then from behind, or with the answer lost."""
        ref = self.talk(lot)
        head = self.session_head(ref)
        seen = Seq(max(0, head.seq - (behind == 3)))
        said = self._next(ref, head, number)
        append = Append(
            ref,
            head.fence.epoch,
            Holder(holder),
            seen,
            tuple(prepared(each) for each in said),
            self.drawn("append"),
            LEASE_MS if number % 5 else 0,
        )
        self.ask(append)
        if again:
            self.ask(append)

    def _next(self, ref: SessionRef, head: SessionHead, number: int) -> list[Fact]:
        if head.run is None:
            send = self._waiting(int(ref.session[-1]), number)
            if send is None or number % 3 == 0:
                return [Retracted(submission_id=SendId(send or "none"))]
            begun = RunStarted(
                run_id=AgentRunId(send),
                session_id=ref.session,
                config=CONFIG,
                input="queued",
                submission_id=SendId(send),
            )
            return [begun, self._step(head)]
        if number % 3 == 0:
            return [RunFinished(run_id=head.run, reason="completed", usage=Usage())]
        call = CallKey(f"{head.lineage}-{head.seq}-0")
        is_asked = self.three.held(approval_key(ref.partition, call)) is not None
        if number % 3 == 1 or is_asked:
            return [self._step(head)]
        return [
            ApprovalRequested(tool_call_id="call_0", call_key=call, tool_name="launch", args={})
        ]

    def _step(self, head: SessionHead) -> StepStarted:
        return StepStarted(step_id=f"s{head.runs}-{head.seq}", episode=head.runs)

    @rule(lot=few)
    def look_for_work(self, lot: int) -> None:
        ref = self.talk(lot)
        shard = int(ref.wake.removeprefix("wake/s"))
        found = self.ask(SessionWakes(shard, Instant(self.three.now + LEASE_MS)))
        for hint in found or ():
            self.ask(RestSession(hint.ref, hint.sort))

    @rule(lot=few, seq=few)
    def keep_a_fold(self, lot: int, seq: int) -> None:
        ref = self.talk(lot)
        kept = PayloadRef("ab" * 32, seq)
        mark = FoldMark(partition=ref.partition, seq=Seq(seq), digest="", ref=kept)
        self.ask(SetMark(ref, mark))

    @rule(lot=few, number=lots)
    def read_a_session(self, lot: int, number: int) -> None:
        ref, seq = self.talk(lot), Seq(number % 7)
        asked = (
            DescribeSession(ref),
            DiscoverSessions(STORAGE, None, 1 + number % 3, (None, "ann")[number % 2]),
            ReadJournal(ref, seq, 1 + number % 4),
            ReadEntries(ref, seq, 1 + number % 4),
            ProveGap(ref, seq),
            ReadMark(ref),
        )
        self.three.ask_at_once(asked)
