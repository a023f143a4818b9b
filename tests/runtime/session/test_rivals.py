"""Faults that rivals, lost answers and the fullness of journals have brought about, each once."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
from tests.support.sessions import Clock, MemoryObjects, counting, sessions_on, within

from perdure.authority.memory import MemoryStore
from perdure.kernel import limits
from perdure.kernel.errors import Conflict, Contended, StaleWriter
from perdure.kernel.ids import CallBatchId, Holder, Seq, StepId, Token
from perdure.kernel.session.answers import call_key
from perdure.kernel.session.facts import (
    Fact,
    ModelStepFinished,
    PlannedCall,
    Replayed,
    ResumeStarted,
    RunFinished,
    StepStarted,
    ToolBatchStarted,
    ToolDispatchIntent,
)
from perdure.kernel.session.frames import prepared
from perdure.kernel.session.messages import Usage, UserMessage
from perdure.kernel.session.owner import Append
from perdure.kernel.session.send import SendReply
from perdure.kernel.view import Key, Reads, View
from perdure.runtime.session.journal import Journal
from perdure.runtime.session.model_scripted import calling
from perdure.runtime.session.ports import (
    CallOutcome,
    CallRequest,
    NotSent,
    ToolSpec,
)

pytestmark = pytest.mark.sessions

LARGE = "x" * 70_000
LEASE_MS = 20_000


def test_a_large_steer_that_must_wait_lies_in_an_object_before_its_frame() -> None:
    async def case() -> None:
        objects = MemoryObjects()
        sessions = sessions_on(objects=objects)
        await sessions.create("pilot", session_id="s")
        await sessions.send("s", "one", send_id="a")
        await sessions.send("s", "two", send_id="b")
        info = await sessions.describe("s")
        await sessions.cancel("s", str(info.run_id))
        await _end_the_run_only(sessions)

        reply = await sessions.send("s", LARGE, delivery="steer", send_id="c")

        assert reply.state == "pending"
        await sessions.drive("s", deadline=within(sessions))
        page = await sessions.transcript("s", limit=500)
        assert any(
            f.type == "queued" and f.payload["request"]["input"] == LARGE for f in page.frames
        )

    asyncio.run(case())


async def _end_the_run_only(sessions) -> None:
    """End the present run as an owner does who dies before the next one begins."""
    journal = await Journal.open(sessions.means, sessions.ref("s"), Holder("owner"), LEASE_MS)
    run = journal.fold.run
    await journal.append([RunFinished(run_id=run.run_id, reason="cancelled", usage=run.usage)])
    await journal.let_go()


def test_an_append_that_landed_before_a_take_over_gives_its_writer_no_lease() -> None:
    async def case() -> None:
        sessions = sessions_on()
        await sessions.create("pilot", session_id="s")
        await sessions.send("s", "one", send_id="a")
        old = await Journal.open(sessions.means, sessions.ref("s"), Holder("old"), 1)
        execute, said = sessions.means.authority.execute, []

        async def answers_late(request):
            reply = await execute(request)
            if isinstance(request, Append) and not said:
                said.append(await Journal.open(sessions.means, old.ref, Holder("new"), LEASE_MS))
                return await execute(request)  # asked again, as whoever heard nothing does
            return reply

        sessions.means.authority.execute = answers_late
        landed = await old.append([StepStarted(step_id=StepId("s1-1"), episode=1)])

        assert landed
        assert old.until == 0

    asyncio.run(case())


class HalfVisible(MemoryStore):
    """A store whose readers miss some records for a while, as DynamoDB's may."""

    hidden: Callable[[Key[Any]], bool] = staticmethod(lambda key: False)

    async def load(self, reads: Reads) -> View:
        view = await super().load(reads)
        if not reads.snapshot:
            for key in view.stored:
                if self.hidden(key):
                    view.stored[key] = None
        return view


def test_an_append_whose_entry_does_not_show_yet_is_not_taken_for_somebody_elses() -> None:
    async def case() -> None:
        store = HalfVisible()
        sessions = sessions_on(store)
        await sessions.create("pilot", session_id="s")
        await sessions.send("s", "one", send_id="a")
        journal = await Journal.open(sessions.means, sessions.ref("s"), Holder("me"), LEASE_MS)
        request = _append(journal, StepStarted(step_id=StepId("s1-1"), episode=1))
        await sessions.means.authority.execute(request)
        store.hidden = lambda key: key.sort.startswith("log/")

        with pytest.raises(Contended):
            await sessions_on(store).means.authority.execute(request)

    asyncio.run(case())


def test_an_append_to_a_head_that_does_not_show_yet_is_asked_for_again_and_no_damage() -> None:
    async def case() -> None:
        sessions = sessions_on()
        await sessions.create("pilot", session_id="s")
        await sessions.send("s", "one", send_id="a")
        journal = await Journal.open(sessions.means, sessions.ref("s"), Holder("me"), LEASE_MS)
        fact = StepStarted(step_id=StepId("s1-1"), episode=1)

        ahead = replace(_append(journal, fact), seen=Seq(journal.seq + 1))

        with pytest.raises(Contended):
            await sessions.means.authority.execute(ahead)

    asyncio.run(case())


def _append(journal: Journal, *facts: Fact) -> Append:
    spelled = tuple(prepared(each) for each in facts)
    grip = journal.grip
    token = Token("one-append")
    return Append(journal.ref, grip.epoch, grip.holder, journal.seq, spelled, token, LEASE_MS)


def _tools(**more: Any) -> list[Any]:
    return [counting(name, effect=effect, **more) for name, effect in EFFECTS.items()]


EFFECTS = {"look": "pure", "note": "idempotent", "launch": "effectful"}


async def _with_intents(sessions, *names: str) -> None:
    """Leave a session as a process does that died when the intents of its calls were durable."""
    await sessions.create("pilot", session_id="s")
    await sessions.send("s", "Fly.", send_id="a")
    journal = await Journal.open(sessions.means, sessions.ref("s"), Holder("first"), LEASE_MS)
    step, batch = StepId("s1-1"), CallBatchId("b4")
    message = calling(*((name, {}) for name in names))
    planned = tuple(
        PlannedCall(
            tool_call_id=call.tool_call_id,
            name=call.name,
            call_key=call_key(journal.fold.lineage, Seq(4), index),
            disposition="dispatchable",
            effect=EFFECTS[call.name],
        )
        for index, call in enumerate(message.calls)
    )
    await journal.append(
        [
            StepStarted(step_id=step, episode=1),
            ModelStepFinished(step_id=step, assistant_message=message, usage=Usage()),
            ToolBatchStarted(batch_id=batch, step_id=step, planned_calls=planned),
            *(
                ToolDispatchIntent(
                    batch_id=batch, tool_call_id=each.tool_call_id, tool_name=each.name, args={}
                )
                for each in planned
            ),
        ]
    )
    await journal.let_go()


def test_a_call_that_another_process_may_have_made_is_never_said_not_to_have_been_made() -> None:
    async def case() -> None:
        sessions = sessions_on(tools=_tools())
        await _with_intents(sessions, "note", "look")
        await sessions.cancel("s", "a", "now")

        await sessions.drive("s", deadline=within(sessions))

        frames = (await sessions.transcript("s", limit=500)).frames
        ends = [frame.payload for frame in frames if frame.type == "tool_result"]
        assert [end["outcome"] for end in ends] == ["unknown", "unknown"]
        assert frames[-1].payload["reason"] == "cancelled"

    asyncio.run(case())


def test_a_run_that_shall_end_is_cancelled_however_often_it_was_resumed() -> None:
    async def case() -> None:
        sessions = sessions_on()
        await sessions.create("pilot", session_id="s")
        await sessions.send("s", "Fly.", send_id="a")
        journal = await Journal.open(sessions.means, sessions.ref("s"), Holder("first"), LEASE_MS)
        again = ResumeStarted(
            episode=1,
            resumed_from_seq=2,
            replayed=Replayed(messages=1, model_steps=0, tool_results=0),
        )
        await journal.append([again] * limits.RESUMES_MAX)
        await journal.let_go()
        await sessions.cancel("s", "a")

        await sessions.drive("s", deadline=within(sessions))

        assert (await sessions.transcript("s", limit=500)).frames[-1].payload[
            "reason"
        ] == "cancelled"

    asyncio.run(case())


@dataclass
class OutOfReach:
    """A tool that is not reached at first; meanwhile its process stands still and is succeeded."""

    spec: ToolSpec
    meanwhile: Callable[[], Any]
    calls: int = 0

    async def call(self, request: CallRequest) -> CallOutcome:
        self.calls += 1
        await self.meanwhile()
        return NotSent("unreachable", "No connection.")


def test_who_was_overtaken_while_it_stood_still_sends_nothing_afterwards() -> None:
    async def case() -> None:
        async def overtaken() -> None:
            clock.at += 10 * LEASE_MS
            await Journal.open(sessions.means, sessions.ref("s"), Holder("second"), LEASE_MS)

        clock = Clock()
        tool = OutOfReach(counting("launch", timeout_ms=900_000).spec, overtaken)
        script = [calling(("launch", {})), "Done."]
        sessions = sessions_on(tools=[tool], script=script, clock=clock)
        await sessions.create("pilot", session_id="s")
        await sessions.send("s", "Fly.", send_id="a")

        with pytest.raises(StaleWriter):
            await sessions.drive("s", deadline=within(sessions, 100 * LEASE_MS))

        assert tool.calls == 1

    asyncio.run(case())


def test_an_append_of_whoever_was_overtaken_is_stale() -> None:
    async def case() -> None:
        clock = Clock()
        sessions = sessions_on(clock=clock)
        await sessions.create("pilot", session_id="s")
        await sessions.send("s", "Fly.", send_id="a")
        old = await Journal.open(sessions.means, sessions.ref("s"), Holder("old"), LEASE_MS)
        clock.at += 2 * LEASE_MS
        await Journal.open(sessions.means, sessions.ref("s"), Holder("new"), LEASE_MS)

        with pytest.raises(StaleWriter):
            await old.append([StepStarted(step_id=StepId("s1-1"), episode=1)])

        assert (await sessions.describe("s")).seq == old.seq

    asyncio.run(case())


def test_a_tool_that_nobody_can_have_is_planned_under_a_short_name() -> None:
    async def case() -> None:
        name = "\u00e9" * 100_000
        sessions = sessions_on(tools=_tools(), script=[calling((name, {})), "Done."])
        await sessions.create("pilot", session_id="s")
        await sessions.send("s", "Fly.", send_id="a")

        await sessions.drive("s", deadline=within(sessions))

        frames = (await sessions.transcript("s", limit=500)).frames
        plan = next(frame for frame in frames if frame.type == "tool_batch_started")
        assert len(plan.payload["planned_calls"][0]["name"]) == 64
        assert frames[-1].payload["reason"] == "completed"

    asyncio.run(case())


@pytest.mark.parametrize("races", [200, pytest.param(1_000, marks=pytest.mark.slow)])
def test_a_steer_is_joined_whenever_it_meets_the_end_of_a_run(races: int) -> None:
    """The race that the journal's head decides, at whatever step the end has reached."""

    async def case() -> None:
        met = Counter[str]()
        sessions = sessions_on()
        for number in range(races):
            session = f"s{number // 10}"
            if not number % 10:
                await sessions.create("pilot", session_id=session)
            met[await _steered(sessions, session, number)] += 1
            if number % 10 == 9:
                ref = sessions.ref(session)
                journal = await Journal.open(sessions.means, ref, Holder("reader"), LEASE_MS)
                messages = journal.fold.messages
                heard = Counter(each.text for each in messages if isinstance(each, UserMessage))
                assert len(heard) == 20
                assert set(heard.values()) == {1}

        assert met["joined"] > races // 10
        assert met["next"] > races // 10

    asyncio.run(case())


async def _steered(sessions, session: str, number: int) -> str:
    """Let a steer meet a run at a step of its own, and say whether it joined it."""
    await sessions.send(session, f"run {number}", send_id=f"run{number}")

    async def steer() -> SendReply:
        for _ in range(number % 60):
            await asyncio.sleep(0)
        return await sessions.send(
            session, f"steer {number}", delivery="steer", send_id=f"steer{number}"
        )

    drive = sessions.drive(session, deadline=within(sessions))
    reply, _ = await asyncio.gather(steer(), drive)
    await sessions.drive(session, deadline=within(sessions))
    return "joined" if reply.run_id == f"run{number}" else "next"


def test_two_sends_of_one_run_at_once_begin_it_once() -> None:
    async def case() -> None:
        for same in (True, False):
            sessions = sessions_on()
            await sessions.create("pilot", session_id="s")
            texts = ("Fly.", "Fly." if same else "Land.")

            replies = await asyncio.gather(
                *(
                    sessions_on(sessions.means.authority._store).send(
                        "s", text, send_id=f"send{number}", run_id="one"
                    )
                    for number, text in enumerate(texts)
                ),
                return_exceptions=True,
            )

            assert (await sessions.describe("s")).runs == 1
            assert sum(isinstance(each, Conflict) for each in replies) == (0 if same else 1)

    asyncio.run(case())
