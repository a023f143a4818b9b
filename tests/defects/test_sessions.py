"""Defects that systems of this kind are known to have: runs of agents that die, race and are resumed."""

from __future__ import annotations

import asyncio

import pytest
from tests.support.sessions import MemoryObjects, counting, sessions_on, within
from tests.support.steps import Died, SteppedStore, Steps

from perdure.authority.memory import MemoryStore
from perdure.authority.packing import unpacked
from perdure.authority.sqlite import SqliteStore
from perdure.kernel import limits
from perdure.kernel.errors import Conflict, PerdureError, SessionTooLarge, StaleWriter
from perdure.kernel.ids import Holder
from perdure.kernel.session.facts import StepStarted
from perdure.kernel.session.messages import AssistantMessage, ToolAnswers, UserMessage
from perdure.runtime.session.journal import Journal
from perdure.runtime.session.model_scripted import calling
from perdure.runtime.session.ports import Completed, OutcomeNotKnown
from perdure.runtime.session.work import Happened

pytestmark = pytest.mark.sessions

LEASE_MS = 20_000
LAUNCH = calling(("launch", {"at": "dawn"}))


class Harbour:
    """What outlives every process of a test: records, objects, time, and what was asked of whom."""

    def __init__(self, script):
        self.store, self.objects, self.at = MemoryStore(), MemoryObjects(), 1_700_000_000_000
        self.script, self.prompts, self.number = script, [], 0

    def now(self):
        self.at += 1
        return self.at

    def sessions(self, *tools, steps=None, store=None):
        """Return the sessions as a new process has them."""
        self.number += 1
        inner = self.store if store is None else store
        return sessions_on(
            SteppedStore(inner, steps or Steps()),
            script=self.said,
            tools=tools,
            objects=self.objects,
            clock=self.now,
            prefix=f"{self.number:04x}",
        )

    def said(self, request, said):
        self.prompts.append(request.messages)
        return self.script[said] if said < len(self.script) else "Done."


async def kill_when(harbour, is_time, *tools, sends=("Fly.",)):
    """Let one process begin, and end it after the first commit that says so; return the next one's."""
    steps = Steps()
    sessions = harbour.sessions(*tools, steps=steps)
    await sessions.create("pilot", session_id="s")
    for send in sends:
        await sessions.send("s", send, send_id=send)

    def told(event):
        if isinstance(event, Happened) and is_time({fact.type for fact in event.facts}):
            steps._is_dead = True
            raise Died

    with pytest.raises(Died):
        await sessions.drive("s", deadline=within(sessions), told=told)
    harbour.at += 2 * LEASE_MS
    return harbour.sessions(*tools)


async def driven(sessions):
    return await sessions.drive("s", deadline=within(sessions))


async def facts_in(sessions):
    page = await sessions.transcript("s", limit=500)
    return [(frame.type, frame.payload) for frame in page.frames]


async def payloads_of(sessions, kind):
    return [payload for found, payload in await facts_in(sessions) if found == kind]


def test_a_model_is_not_asked_in_the_run_whose_call_may_have_happened():
    async def case():
        harbour, launch = Harbour([LAUNCH]), counting("launch")
        sessions = await kill_when(harbour, lambda kinds: "tool_dispatch_intent" in kinds, launch)
        before = len(harbour.prompts)
        await driven(sessions)
        assert len(harbour.prompts) == before
        assert launch.calls == []

        await sessions.send("s", "And now?", send_id="next")
        await driven(sessions)

        user, spoke, answers, last = harbour.prompts[before]
        assert (user, last) == (UserMessage(text="Fly."), UserMessage(text="And now?"))
        assert isinstance(spoke, AssistantMessage)
        assert isinstance(answers, ToolAnswers)
        assert answers.answers[0].tool_call_id == spoke.calls[0].tool_call_id
        assert answers.answers[0].output["error"] == "unknown_outcome"

    asyncio.run(case())


def test_a_close_out_that_dies_between_its_barriers_ends_once():
    async def case():
        harbour, launch = Harbour([LAUNCH]), counting("launch")
        await kill_when(harbour, lambda kinds: "tool_dispatch_intent" in kinds, launch)
        await kill_when(harbour, lambda kinds: "tool_batch_finished" in kinds, launch)
        sessions = harbour.sessions(launch)

        await driven(sessions)
        await driven(sessions)

        assert [each["outcome"] for each in await payloads_of(sessions, "tool_result")] == [
            "unknown"
        ]
        assert [each["reason"] for each in await payloads_of(sessions, "run_finished")] == [
            "interrupted"
        ]
        (first, *_) = await payloads_of(sessions, "resume_started")
        assert len(first["indeterminate"]) == 1
        assert first["redone"] == []

    asyncio.run(case())


def test_a_run_that_came_to_its_natural_end_is_finished_without_asking_its_model():
    async def case():
        harbour = Harbour(["Done."])
        sessions = await kill_when(harbour, lambda kinds: "model_step_finished" in kinds)
        before = len(harbour.prompts)

        await driven(sessions)

        assert len(harbour.prompts) == before == 1
        assert [each["reason"] for each in await payloads_of(sessions, "run_finished")] == [
            "completed"
        ]

    asyncio.run(case())


class Looking:
    """A tool that notes what is durable at the moment in which it is called."""

    def __init__(self, name, harbour, **more):
        self.spec, self.harbour, self.seen = counting(name, **more).spec, harbour, []

    async def call(self, request):
        sessions = self.harbour.sessions()
        self.seen.append([kind for kind, _ in await facts_in(sessions)])
        return Completed({})


def test_every_intent_of_a_batch_is_durable_before_its_first_call_leaves():
    async def case():
        harbour = Harbour([calling(("look", {}), ("launch", {}), ("look", {}))])
        look, launch = Looking("look", harbour, effect="pure"), Looking("launch", harbour)
        sessions = harbour.sessions(look, launch)
        await sessions.create("pilot", session_id="s")
        await sessions.send("s", "Fly.")

        await driven(sessions)

        assert look.seen[0].count("tool_dispatch_intent") == 3
        entries = [key for key in harbour.store._records if key.sort.startswith("log/")]
        with_intents = [
            key for key in entries if b"tool_dispatch_intent" in _plain(harbour.store, key)
        ]
        assert len(with_intents) == 1

    asyncio.run(case())


def _plain(store, key):
    return bytes(unpacked(store._records[key].body))


class Lost(Looking):
    """A tool of which nothing is heard."""

    async def call(self, request):
        return OutcomeNotKnown("reset", "The connection was lost.")


def test_a_call_that_was_not_sent_is_written_off_by_the_process_that_knows_it():
    async def case():
        harbour = Harbour([calling(("launch", {}), ("sink", {}))])
        sink = counting("sink")
        sessions = harbour.sessions(Lost("launch", harbour), sink)
        await sessions.create("pilot", session_id="s")
        await sessions.send("s", "Fly.")

        await driven(sessions)

        outcomes = [each["outcome"] for each in await payloads_of(sessions, "tool_result")]
        assert outcomes == ["unknown", "interrupted"]
        assert sink.calls == []

    asyncio.run(case())


def test_nothing_is_told_that_could_not_be_made_durable():
    async def case():
        harbour, launch = Harbour([LAUNCH]), counting("launch")
        sessions = harbour.sessions(launch)
        await sessions.create("pilot", session_id="s")
        await sessions.send("s", "Fly.")
        heard = []
        steps = Steps()
        process = harbour.sessions(launch, steps=steps)

        def told(event):
            if isinstance(event, Happened):
                heard.extend(fact.type for fact in event.facts)
                if "tool_dispatch_intent" in heard and steps._die_at is None:
                    steps._die_at = steps._counted + 1

        with pytest.raises(Died):
            await process.drive("s", deadline=within(process), told=told)

        assert len(launch.calls) == 1
        assert "tool_result" not in heard
        assert await payloads_of(harbour.sessions(), "tool_result") == []

    asyncio.run(case())


def test_a_run_begins_once_however_many_ask_for_it_at_the_same_time():
    async def case():
        harbour = Harbour([])
        one, other = harbour.sessions(), harbour.sessions()
        await one.create("pilot", session_id="s")

        replies = await asyncio.gather(
            *(each.send("s", "Fly.", send_id="first", run_id="r") for each in (one, other) * 5)
        )
        before = await facts_in(one)
        with pytest.raises(Conflict):
            await one.send("s", "Land.", send_id="second", run_id="r")

        assert {(reply.state, reply.run_id) for reply in replies} == {("active", "r")}
        assert sorted(reply.replayed for reply in replies) == [False] + [True] * 9
        assert [kind for kind, _ in before] == ["journal_begun", "run_started"]
        assert await facts_in(one) == before

    asyncio.run(case())


def test_an_owner_that_was_taken_over_while_it_slept_writes_and_sends_nothing_more():
    async def case():
        harbour, launch = Harbour([LAUNCH]), counting("launch")
        old = harbour.sessions(launch)
        await old.create("pilot", session_id="s")
        await old.send("s", "Fly.")
        journal = await Journal.open(old.means, old.ref("s"), Holder("old"), LEASE_MS)
        harbour.at += 2 * LEASE_MS
        await driven(harbour.sessions(launch))
        before, calls = await facts_in(old), len(launch.calls)

        with pytest.raises(StaleWriter):
            await journal.append([StepStarted(step_id="s1-9", episode=1)])

        assert (await facts_in(old), len(launch.calls)) == (before, calls)

    asyncio.run(case())


def test_a_steer_that_was_said_to_be_active_is_in_the_transcript_whoever_was_first(tmp_path):
    async def case():
        path = tmp_path / "catalog.db"
        harbour = Harbour([])
        stores = [await SqliteStore.open(path), await SqliteStore.open(path)]
        owner, other = (harbour.sessions(store=store) for store in stores)
        active = 0
        await owner.create("pilot", session_id="s")
        for number in range(25):
            await owner.send("s", f"Fly {number}.", send_id=f"run-{number}")
            _, reply = await asyncio.gather(driven(owner), _steer_later(other, number))
            active += reply.state == "active"
            await driven(owner)
        frames = await facts_in(owner)
        for store in stores:
            await store.close()

        texts = [payload["input"] for kind, payload in frames if kind in {"steered", "run_started"}]
        assert sorted(text for text in texts if text.startswith("Mind")) == sorted(
            f"Mind {number}." for number in range(25)
        )
        assert active

    asyncio.run(case())


async def _steer_later(sessions, number):
    await asyncio.sleep(0.002 * (number % 5))
    return await sessions.send("s", f"Mind {number}.", delivery="steer", send_id=f"steer-{number}")


def test_a_journal_that_is_full_has_room_for_the_end_of_its_run():
    async def case():
        harbour = Harbour([calling(*(("launch", {}) for _ in range(20)))] * 4)
        ceiling = 2 * limits.CLOSE_OUT_BYTES
        launch = Large("launch", harbour, ceiling // 8)
        sessions = harbour.sessions(launch)
        await sessions.create("pilot", session_id="s", ceiling_bytes=ceiling)
        await sessions.send("s", "Fly.")

        await driven(sessions)

        (end,) = await payloads_of(sessions, "run_finished")
        assert (end["reason"], end["code"]) == ("error", SessionTooLarge.code)
        intents = await payloads_of(sessions, "tool_dispatch_intent")
        results = await payloads_of(sessions, "tool_result")
        assert len(results) == len(intents)
        info = await sessions.describe("s")
        assert info.run_state == "idle"
        assert info.bytes <= ceiling

    asyncio.run(case())


class Large(Looking):
    """A tool that has much to say."""

    def __init__(self, name, harbour, size):
        super().__init__(name, harbour, timeout_ms=1_000)
        self.size = size

    async def call(self, request):
        return Completed("x" * self.size)


def test_a_read_from_any_frame_neither_drops_nor_doubles_one():
    async def case():
        harbour, launch = Harbour([LAUNCH]), counting("launch")
        sessions = harbour.sessions(launch)
        await sessions.create("pilot", session_id="s")
        whole = [frame.seq for frame in (await sessions.transcript("s")).frames]
        assert whole == [1]
        await sessions.send("s", "Fly.")
        await driven(sessions)
        last = (await sessions.describe("s")).seq

        for after in range(last + 1):
            page = await sessions.transcript("s", after=after, limit=500)
            assert [frame.seq for frame in page.frames] == list(range(after + 1, last + 1))

    asyncio.run(case())


@pytest.mark.parametrize("when", ["before", "after", "lost"])
def test_a_commit_without_an_answer_is_asked_for_and_not_guessed(when):
    async def case():
        for place in range(1, 12):
            harbour, launch = Harbour([LAUNCH]), counting("launch")
            process = harbour.sessions(launch, steps=Steps(place, when=when, of="commit"))
            try:
                await _whole(process)
            except (Died, BaseExceptionGroup, PerdureError):
                harbour.at += 2 * LEASE_MS
            sessions = harbour.sessions(launch)
            await _whole(sessions)

            ends = [each["reason"] for each in await payloads_of(sessions, "run_finished")]
            assert len(launch.calls) <= 1
            assert len(ends) == 1
            if when == "lost":
                assert (ends, len(launch.calls)) == (["completed"], 1)

    asyncio.run(case())


async def _whole(sessions):
    await sessions.create("pilot", session_id="s")
    await sessions.send("s", "Fly.", send_id="first")
    await driven(sessions)
