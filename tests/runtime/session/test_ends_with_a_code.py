"""What stops in the middle of a run ends it with a code, and says of each call what is known of it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import Any

import pytest
from tests.support.sessions import (
    SCHEMA,
    STORAGE,
    Clock,
    asking_first,
    counting,
    sessions_on,
    within,
)

from perdure.authority.memory import MemoryStore
from perdure.kernel import limits
from perdure.kernel.errors import SessionTooLarge
from perdure.kernel.session.messages import AssistantMessage
from perdure.runtime.app import App
from perdure.runtime.session.agent import Agent
from perdure.runtime.session.model_scripted import calling
from perdure.runtime.session.ports import (
    CallOutcome,
    CallRequest,
    Completed,
    ModelCall,
    ModelReply,
    ModelRequest,
    OutcomeNotKnown,
    ToolSpec,
)
from perdure.runtime.session.sessions import Sessions
from perdure.runtime.session.toolbox import Toolbox

pytestmark = pytest.mark.sessions

PAST_A_FRAME = "x" * (limits.FRAME_BYTES_MAX + 1)


async def frames_of(sessions) -> list[Any]:
    info = await sessions.describe("s")
    page = await sessions.transcript("s", after=max(0, info.seq - 100), limit=100)
    return list(page.frames)


def payloads(frames, kind):
    return [frame.payload for frame in frames if frame.type == kind]


async def begun(sessions, **more: Any) -> None:
    await sessions.create("pilot", session_id="s", **more)
    await sessions.send("s", "Fly.", send_id="a")


class Endless:
    """A model that says more than any frame holds."""

    async def step(self, request: ModelRequest, call: ModelCall) -> ModelReply:
        return ModelReply(message=AssistantMessage(text=PAST_A_FRAME))


def test_a_message_longer_than_any_frame_ends_its_run_and_the_next_one_runs() -> None:
    async def case() -> None:
        plain = sessions_on()
        sessions = Sessions(plain.means, STORAGE, plain.app, lambda _: Endless())
        await begun(sessions)
        await sessions.drive("s", deadline=within(sessions))

        first = await sessions.send("s", "Fly.", send_id="a")

        assert (first.state, first.reason, first.code) == ("finished", "error", "too_large")
        assert (await sessions.send("s", "Again.", send_id="b")).state == "active"

    asyncio.run(case())


def test_a_queued_run_that_no_frame_holds_any_more_is_taken_back_and_the_next_one_runs() -> None:
    async def case() -> None:
        store = MemoryStore()
        sessions = sessions_on(store)
        await begun(sessions)
        brief = {"system": "Be brief."}
        await sessions.send("s", "Land.", send_id="b")
        await sessions.send("s", "Rest.", send_id="c", overrides=brief)
        grown = App("harbour")
        grown.agent(
            Agent(name="pilot", model="scripted:test", tools=Toolbox(), system=PAST_A_FRAME)
        )
        after = sessions_on(store, objects=sessions.means.objects, app=grown, prefix="aa")

        driven = await after.drive("s", deadline=within(sessions))

        sent = [await sessions.send("s", "Land.", send_id="b")]
        sent.append(await sessions.send("s", "Rest.", send_id="c", overrides=brief))
        assert driven.state == "idle"
        assert [each.state for each in sent] == ["retracted", "finished"]

    asyncio.run(case())


@dataclass
class Filling:
    """A tool that fills the journal to its last byte while it is called."""

    spec: ToolSpec
    outcome: CallOutcome
    fill: Any = None

    async def call(self, request: CallRequest) -> CallOutcome:
        await self.fill()
        return self.outcome


@pytest.mark.parametrize(
    ("outcome", "reason"),
    [(OutcomeNotKnown("reset", "Gone."), "interrupted"), (Completed({"at": "sea"}), "error")],
    ids=("unknown", "known"),
)
def test_a_full_journal_ends_its_run_as_its_calls_ended(outcome: CallOutcome, reason: str) -> None:
    async def case() -> None:
        spec = ToolSpec(name="launch", description="", schema=SCHEMA, module="function")
        tool = Filling(spec, outcome)
        sessions = sessions_on(tools=[tool], script=[calling(("launch", {})), "Done."])

        async def fill() -> None:
            await filled(sessions)

        tool.fill = fill
        await begun(sessions, ceiling_bytes=2 * limits.CLOSE_OUT_BYTES)

        await sessions.drive("s", deadline=within(sessions))

        (end,) = payloads(await frames_of(sessions), "run_finished")
        assert (end["reason"], end["code"]) == (reason, "session_too_large")

    asyncio.run(case())


async def filled(sessions) -> None:
    """Steer until not a byte is left that a steer could take."""
    for size in (10_000, 1_000, 100, 10, 1):
        try:
            while True:
                await sessions.send("s", "z" * size, delivery="steer")
        except SessionTooLarge:
            continue


def test_why_a_call_was_denied_is_told_also_if_its_run_is_ended_at_once() -> None:
    async def case() -> None:
        tool = counting("launch", needs_approval=True)
        sessions = sessions_on(script=asking_first, tools=[tool])
        await begun(sessions)
        await sessions.drive("s", deadline=within(sessions))
        (waiting,) = (await sessions.describe("s")).waiting_calls
        await sessions.resolve("s", waiting.call_key, "denied", detail="The tide is out.")
        await sessions.cancel("s", "a")

        await sessions.drive("s", deadline=within(sessions))

        frames = await frames_of(sessions)
        (end,) = payloads(frames, "tool_no_dispatch")
        assert (end["reason"], end["detail"]) == ("denied", "The tide is out.")
        assert payloads(frames, "run_finished")[0]["reason"] == "cancelled"

    asyncio.run(case())


def test_a_calls_id_is_as_long_as_it_is_spelled_in_the_journal() -> None:
    async def case() -> None:
        fits, spills = "é" * 21, "\u0001" * 128
        script = [named(fits, spills, "é" * 128), "Done."]
        sessions = sessions_on(tools=[counting("launch", effect="pure")], script=script)
        await begun(sessions)

        await sessions.drive("s", deadline=within(sessions))

        (message,) = payloads(await frames_of(sessions), "tool_batch_started")
        ids = [each["tool_call_id"] for each in message["planned_calls"]]
        assert ids == [fits, "call_1", "call_2"]

    asyncio.run(case())


def named(*ids: str) -> AssistantMessage:
    message = calling(*(("launch", {}) for _ in ids))
    calls = [replace(c, tool_call_id=i) for c, i in zip(message.calls, ids, strict=True)]
    return replace(message, calls=tuple(calls))


@dataclass
class Slow:
    """A tool that takes all of the time that there is."""

    spec: ToolSpec
    clock: Clock
    calls: int = 0

    async def call(self, request: CallRequest) -> CallOutcome:
        self.calls += 1
        self.clock.at += 11_000
        return Completed({})


def test_a_call_is_not_begun_when_the_one_before_it_took_all_the_time() -> None:
    async def case() -> None:
        clock = Clock()
        tool = Slow(counting("launch", timeout_ms=4_000).spec, clock)
        script = [calling(("launch", {}), ("launch", {})), "Done."]
        sessions = sessions_on(tools=[tool], script=script, clock=clock)
        await begun(sessions)

        await sessions.drive("s", deadline=within(sessions, 12_000))

        _, second = payloads(await frames_of(sessions), "tool_result")
        assert tool.calls == 1
        assert "out_of_time" in str(second)

    asyncio.run(case())
