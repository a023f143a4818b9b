"""What is kept free of a journal is enough to end any run, and its head stays small."""

from __future__ import annotations

import asyncio

import pytest
from tests.support.sessions import counting, sessions_on, within

from perdure.kernel import limits
from perdure.kernel.ids import (
    AgentRunId,
    CallBatchId,
    CallKey,
    Epoch,
    Holder,
    Instant,
    Lineage,
    Partition,
    SendId,
    Seq,
    SessionId,
    StepId,
    StorageId,
)
from perdure.kernel.records import Fence
from perdure.kernel.session import answers, facts
from perdure.kernel.session.features import FEATURES
from perdure.kernel.session.frames import framed, prepared
from perdure.kernel.session.messages import Usage
from perdure.kernel.session.records import SessionHead, SessionRef
from perdure.runtime.session.model_scripted import calling

pytestmark = pytest.mark.sessions

LONGEST = limits.INTEGER_MAX
LINEAGE = Lineage("L" * 22)
BATCH = CallBatchId(f"b{LONGEST}")
RUN = AgentRunId("\u00e9" * 64)
STEP = StepId(f"s{LONGEST}-{LONGEST}")


def size(fact: facts.Fact) -> int:
    frame = framed(
        prepared(fact), lineage=LINEAGE, previous="", seq=Seq(LONGEST), fence=Epoch(LONGEST)
    )
    return frame.size


def name(index: int) -> str:
    return f"{index:03}".ljust(limits.TOOL_CALL_ID_BYTES_MAX, "x")


KEYS = [CallKey(f"{LINEAGE}-{LONGEST}-{index}") for index in range(limits.CALLS_MAX)]


def largest_close_out() -> list[facts.Fact]:
    """Return the frames of the largest batch that is planned and ended at once, and what it needs."""
    calls = range(limits.CALLS_MAX)
    replayed = facts.Replayed(messages=LONGEST, model_steps=LONGEST, tool_results=LONGEST)
    return [
        facts.ResumeStarted(
            episode=LONGEST,
            resumed_from_seq=LONGEST,
            replayed=replayed,
            redone=tuple(KEYS),
            indeterminate=tuple(KEYS),
        ),
        facts.ToolBatchStarted(
            batch_id=BATCH,
            step_id=STEP,
            planned_calls=tuple(
                facts.PlannedCall(
                    tool_call_id=name(index),
                    name="n" * limits.TOOL_CALL_ID_BYTES_MAX,
                    call_key=KEYS[index],
                    disposition="no_dispatch",
                    effect="idempotent",
                    reason="tool_schema_changed",
                )
                for index in calls
            ),
        ),
        *(answers.unknown(BATCH, name(index)) for index in calls),
        facts.ToolBatchFinished(batch_id=BATCH),
        facts.TurnFinished(step_id=STEP),
        *(facts.RunCancelRequested(run_id=RUN, at=at) for at in ("boundary", "now")),
        facts.RunFinished(
            run_id=RUN,
            reason="error",
            usage=Usage(input_tokens=LONGEST, output_tokens=LONGEST),
            code="retained_session_too_large",
        ),
    ]


def test_what_is_kept_free_holds_the_close_out_of_the_largest_batch_and_every_send_that_waits():
    retracts = [
        facts.Retracted(submission_id=SendId("\u00e9" * 64)) for _ in range(limits.QUEUED_SENDS_MAX)
    ]

    assert sum(map(size, [*largest_close_out(), *retracts])) <= limits.CLOSE_OUT_BYTES


def test_a_head_with_the_longest_ids_takes_at_most_a_kilobyte():
    ref = SessionRef(StorageId("s" * 128), SessionId("\u00e9" * 64))
    head = SessionHead(
        partition=Partition(ref.partition),
        lineage=LINEAGE,
        fence=Fence(epoch=Epoch(10**9), holder=Holder("h" * 36), until=Instant(10**15)),
        seq=Seq(limits.JOURNAL_BYTES_MAX // limits.FRAME_ENVELOPE_BYTES),
        digest="d" * 64,
        bytes=limits.JOURNAL_BYTES_MAX,
        runs=10**9,
        run=AgentRunId("r" * limits.SEND_ID_BYTES_MAX),
        run_state="active",
        cancel="boundary",
        queued=limits.QUEUED_SENDS_MAX,
        approvals=limits.CALLS_MAX,
        requires=tuple(sorted(FEATURES)),
        hint=ref.hint_sort(Instant(10**15)),
    )

    assert len(head.body()) <= 1_024


@pytest.mark.parametrize("count", [1, 8, limits.CALLS_MAX])
def test_a_journal_filled_to_its_last_byte_still_ends_its_run(count):
    async def case():
        tool = counting("look", effect="pure")
        script = [calling(*(("look", {}) for _ in range(count)))] * 400
        sessions = sessions_on(tools=[tool], script=script)
        ceiling = 2 * limits.CLOSE_OUT_BYTES
        await sessions.create("pilot", session_id="s", ceiling_bytes=ceiling)
        for number in range(20):
            await sessions.send("s", "Fly.", send_id=f"send{number}", overrides={"max_steps": 400})

        driven = await sessions.drive("s", deadline=within(sessions, 10**9))

        info = await sessions.describe("s")
        assert driven.state == "idle"
        assert (info.run_state, info.queued) == ("idle", 0)
        assert info.bytes <= ceiling
        frames = (await sessions.transcript("s", after=info.seq - 60, limit=60)).frames
        ends = [frame.payload for frame in frames if frame.type == "run_finished"]
        assert ends[-1]["code"] == "session_too_large"

    asyncio.run(case())
