"""Who acts on sessions: senders, cancellers, approvers, and processes that follow hints and drive."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from tests.simulator.records import expect
from tests.simulator.session_truth import SessionTruth
from tests.simulator.stage import STORAGE, Process

from perdure.kernel.errors import Corrupt, PerdureError, Unavailable
from perdure.kernel.ids import Instant
from perdure.kernel.places import WAKE_SHARDS
from perdure.kernel.session.messages import AssistantMessage, ToolCall
from perdure.kernel.session.owner import RestSession
from perdure.kernel.session.records import SessionRef, SessionWake, session_wake_partition
from perdure.kernel.view import Range, Reads
from perdure.runtime.app import App
from perdure.runtime.session.agent import Agent
from perdure.runtime.session.journal import Means
from perdure.runtime.session.model_scripted import ScriptedModel
from perdure.runtime.session.ports import (
    CallOutcome,
    CallRequest,
    Completed,
    NotSent,
    OutcomeNotKnown,
    ToolSpec,
)
from perdure.runtime.session.sessions import Sessions
from perdure.runtime.session.toolbox import Toolbox
from perdure.runtime.session.work import Happened, Said

SESSIONS = ("s1", "s2")
EFFECTS = {"look": "pure", "note": "idempotent", "launch": "effectful", "ask": "effectful"}
LARGE = "x" * 70_000
DRIVES_MS = (2_500, 6_000, 30_000, 600_000)


@dataclass
class SimulatedTool:
    """A tool whose effect is counted outside of every process, and whose answer may be lost."""

    me: Process
    truth: SessionTruth
    spec: ToolSpec

    async def call(self, request: CallRequest) -> CallOutcome:
        chance, loop = self.me.stage.chance, self.me.stage.loop
        drawn = chance.random()
        if not self.me.stage.is_storm:
            drawn = 1.0
        if drawn < 0.1:
            return NotSent("unreachable", "No connection.")
        partition = SessionRef(STORAGE, request.session).partition
        self.truth.called(partition, request.call_key, self.spec.effect)
        await asyncio.sleep(chance.random() * (4.0 if drawn < 0.3 else 0.05))
        if drawn < 0.15:
            return OutcomeNotKnown("reset", "The connection was lost.")
        if drawn < 0.18:
            raise RuntimeError("a tool that breaks off")
        return Completed({"at": loop.steps, "said": LARGE if drawn > 0.99 else ""})


def script(me: Process, truth: SessionTruth) -> Any:
    """Return what the model says: drawn anew with each request."""

    async def step(request: Any, said: int) -> AssistantMessage:
        truth.asked(request.messages)
        chance = me.stage.chance
        await asyncio.sleep(chance.random() * (3.0 if chance.random() < 0.1 else 0.1))
        if chance.random() < 0.45:
            return AssistantMessage(text=LARGE if chance.random() < 0.05 else f"said {said}")
        names = [me.stage.pick(("look", "note", "launch", "ask", "gone"))]
        while chance.random() < 0.5:
            names.append(me.stage.pick(("look", "note", "launch", "launch")))
        return AssistantMessage(
            text="I look. ",
            stop="tool_calls",
            calls=tuple(
                ToolCall(tool_call_id=f"call_{number}", name=name, args={})
                for number, name in enumerate(names)
            ),
        )

    return step


def sessions_of(me: Process) -> Sessions:
    """Return the sessions as one life has them."""
    truth: SessionTruth = me.stage.sessions  # type: ignore[attr-defined]
    tools = [
        SimulatedTool(
            me,
            truth,
            ToolSpec(
                name=name,
                description="",
                schema={"type": "object"},
                effect=effect,  # type: ignore[arg-type]
                module="function",
                needs_approval=name == "ask",
                timeout_ms=5_000,
            ),
        )
        for name, effect in EFFECTS.items()
    ]
    app = App("harbour")
    app.agent(
        Agent(
            name="pilot", model="scripted:play", tools=Toolbox(*tools), max_steps=4, step_ms=8_000
        )
    )
    means = Means(me.authority, me.objects, me.now, me.new_token, asyncio.sleep)
    model = ScriptedModel(script(me, truth), me.now, asyncio.sleep)
    lease_ms = me.stage.pick((3_000, 10_000))
    return Sessions(means, STORAGE, app, lambda _: model, lease_ms)


def held(me: Process, call: str, error: PerdureError) -> None:
    """Hold an error to be none that says that a journal is broken."""
    expect(not isinstance(error, Corrupt), "S6", "{} was answered {}", call, error)
    me.met(f"{call}: {error.code}")


async def sender(me: Process) -> None:
    """Send, and after an unknown outcome send the same again, in this life or another."""
    sessions = sessions_of(me)
    truth: SessionTruth = me.stage.sessions  # type: ignore[attr-defined]
    while await me.rested(6.0):
        session = me.stage.pick(SESSIONS)
        send = f"{me.life.mark}-{me.new_token()}"
        delivery = me.stage.pick(("queue", "queue", "steer", "steer", "interrupt"))
        text = f"{send} " + (LARGE if me.stage.chance.random() < 0.1 else "")
        for _ in range(me.stage.pick((1, 3, 8))):
            try:
                reply = await sessions.send(session, text, delivery=delivery, send_id=send)
            except Unavailable as error:
                held(me, "send", error)
                continue
            except PerdureError as error:
                held(me, "send", error)
                break
            truth.answered(sessions.ref(session).partition, send, text, reply.state)
            me.met(f"{delivery}: {reply.state}")
            if delivery == "queue" and me.stage.chance.random() < 0.3:
                await _take_back(me, sessions, session, send)


async def _take_back(me: Process, sessions: Sessions, session: str, send: str) -> None:
    try:
        reply = await sessions.retract(session, send)
    except PerdureError as error:
        held(me, "retract", error)
        return
    me.met(f"retract: {reply.state}")
    taken = (sessions.ref(session).partition, send)
    expect(taken in me.stage.sessions.retracted, "S4", "{} taken back, not durably", send)  # type: ignore[attr-defined]


async def canceller(me: Process) -> None:
    """Cancel the present run of a session now and then, and stay with it until it is told so."""
    sessions = sessions_of(me)
    while await me.rested(15.0):
        session = me.stage.pick(SESSIONS)
        try:
            info = await sessions.describe(session)
            if info.run_id is None:
                continue
            reply = await sessions.cancel(session, info.run_id, me.stage.pick(("boundary", "now")))
        except PerdureError as error:
            held(me, "cancel", error)
            continue
        me.met(f"cancel: {reply.state}")


async def approver(me: Process) -> None:
    """Decide of calls that wait."""
    sessions = sessions_of(me)
    while await me.rested(3.0):
        await approve(me, sessions, me.stage.pick(SESSIONS))


async def approve(me: Process, sessions: Sessions, session: str) -> None:
    """Decide of the calls of one session that wait."""
    try:
        for call in (await sessions.describe(session)).waiting_calls:
            word = me.stage.pick(("approved", "denied"))
            reply = await sessions.resolve(session, call.call_key, word)
            me.met(f"approval: {reply.state}")
    except PerdureError as error:
        held(me, "resolve", error)


async def driver(me: Process) -> None:
    """Go on with sessions that hints lead to; nothing else tells of work."""
    sessions = sessions_of(me)
    while await me.rested(1.0):
        await follow(me, sessions, me.stage.pick(DRIVES_MS))


async def follow(me: Process, sessions: Sessions, ms: int) -> bool:
    """Follow one hint; say whether there was one."""
    try:
        hints = await _hints(me)
        if not hints:
            return False
        hint = me.stage.pick(hints)
        rest = await me.authority.execute(RestSession(hint.ref, hint.sort))
        me.met(f"hint: {rest}")
        if rest == "due":
            await _drive(me, sessions, hint.session, ms)
    except PerdureError as error:
        held(me, "drive", error)
    return True


async def _drive(me: Process, sessions: Sessions, session: str, ms: int) -> None:
    truth: SessionTruth = me.stage.sessions  # type: ignore[attr-defined]
    partition = sessions.ref(session).partition

    def told(what: Said | Happened) -> None:
        if isinstance(what, Happened):
            truth.told(partition, what.first_seq, [each.type for each in what.facts])

    driven = await sessions.drive(session, deadline=Instant(me.now() + ms), told=told)
    me.met(f"drive: {driven.state}")


async def _hints(me: Process) -> list[SessionWake]:
    found: list[SessionWake] = []
    for shard in range(WAKE_SHARDS):
        wanted = Range(session_wake_partition(shard), "", "~", SessionWake, limit=10)
        found += (await me.authority.view(Reads(ranges=(wanted,)))).find(wanted)
    return found


async def closer(me: Process) -> None:
    """When the storm is over: answer what waits and follow hints until none is left."""
    sessions = sessions_of(me)
    for _ in range(400):
        for session in SESSIONS:
            await approve(me, sessions, session)
        others = [each for each in me.stage.processes if each is not me]
        # Before the look: who leaves during it may have left work behind.
        have_left = all(each.has_left for each in others)
        if not await follow(me, sessions, 600_000) and have_left:
            break
        await asyncio.sleep(1.0)
    me.stage.is_over = True


async def founder(me: Process) -> None:
    """Create the sessions of a play."""
    sessions = sessions_of(me)
    for session in SESSIONS:
        await sessions.create("pilot", session_id=session)
    me.stage.is_founded = True


ROLES = {"sender": sender, "canceller": canceller, "approver": approver, "driver": driver}
