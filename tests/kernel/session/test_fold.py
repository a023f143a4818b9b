"""The fold refuses what no journal written by its rules can hold."""

from __future__ import annotations

import pytest

from perdure.kernel.errors import Corrupt
from perdure.kernel.ids import Lineage, Seq
from perdure.kernel.session import facts
from perdure.kernel.session.config import RunConfig
from perdure.kernel.session.fold import Fold
from perdure.kernel.session.messages import AssistantMessage, ToolCall, Usage

pytestmark = pytest.mark.sessions

LINEAGE = Lineage("L" * 22)
CONFIG = RunConfig(agent="pilot", model="m", system="", max_steps=4)


def calls(*names):
    return tuple(ToolCall(tool_call_id=name, name="tool", args={}) for name in names)


def planned(*names, disposition="dispatchable"):
    return tuple(
        facts.PlannedCall(
            tool_call_id=name,
            name="tool",
            call_key=f"key-{name}",
            disposition=disposition,
            effect="effectful",
        )
        for name in names
    )


def result(name, outcome="completed", batch="b"):
    return facts.ToolResult(batch_id=batch, tool_call_id=name, outcome=outcome, output={})


def started(run="r", send=None):
    return facts.RunStarted(
        run_id=run, session_id="s", config=CONFIG, input="in", submission_id=send
    )


def step(number=1):
    return facts.StepStarted(step_id=f"s1-{number}", episode=1)


def spoke(*names, number=1):
    message = AssistantMessage(text="text", calls=calls(*names))
    return facts.ModelStepFinished(step_id=f"s1-{number}", assistant_message=message, usage=Usage())


def batch(*names, **more):
    return facts.ToolBatchStarted(
        batch_id="b", step_id="s1-1", planned_calls=planned(*names, **more)
    )


def intent(name):
    return facts.ToolDispatchIntent(batch_id="b", tool_call_id=name, tool_name="tool", args={})


def queued(send):
    return facts.Queued(submission_id=send, request=facts.QueuedRequest(run_id=send, input="in"))


def ended(run="r"):
    return facts.RunFinished(run_id=run, reason="completed", usage=Usage())


BEGUN = facts.JournalBegun(lineage=LINEAGE, session_id="s")
BATCH_ENDS = facts.ToolBatchFinished(batch_id="b")
TURN_ENDS = facts.TurnFinished(step_id="s1-1")
ASKED = facts.ApprovalRequested(tool_call_id="a", call_key="key-a", tool_name="tool", args={})
RESOLVED = facts.ApprovalResolved(tool_call_id="a", call_key="key-a", decision="approved")
CANCELLED = facts.RunCancelRequested(run_id="other", at="now")
STEERED = facts.Steered(send_id="t", request_identity_digest="d", input="in")
WITH_CALLS = [BEGUN, started(), step(), spoke("a", "b")]
OPEN = [*WITH_CALLS, batch("a", "b")]
LEFT = [*OPEN, intent("a"), intent("b")]
DONE = [*LEFT, result("a"), result("b"), BATCH_ENDS, TURN_ENDS]

IMPOSSIBLE = {
    "a journal that begins with something else": [queued("q")],
    "a second beginning": [BEGUN, BEGUN],
    "another lineage": [facts.JournalBegun(lineage=Lineage("M" * 22), session_id="s")],
    "a run beside another": [BEGUN, started(), started("r2")],
    "a run of a send that does not wait": [BEGUN, started(send="q")],
    "a send taken back that does not wait": [BEGUN, facts.Retracted(submission_id="q")],
    "a send taken back twice": [
        BEGUN,
        queued("q"),
        facts.Retracted(submission_id="q"),
        facts.Retracted(submission_id="q"),
    ],
    "a send queued twice": [BEGUN, queued("q"), queued("q")],
    "a step without a run": [BEGUN, step()],
    "a steer without a run": [BEGUN, STEERED],
    "the end of no run": [BEGUN, ended()],
    "the end of another run": [BEGUN, started(), ended("r2")],
    "a second end": [BEGUN, started(), ended(), ended()],
    "the cancel of another run": [BEGUN, started(), CANCELLED],
    "a message without a step": [BEGUN, started(), spoke()],
    "a second message": [BEGUN, started(), step(), spoke(), spoke()],
    "a message of another step": [BEGUN, started(), step(), spoke(number=2)],
    "a step before the end of the last": [*WITH_CALLS, step(2)],
    "a step behind a natural end": [BEGUN, started(), step(), spoke(), TURN_ENDS, step(2)],
    "a step behind an unknown outcome": [
        *LEFT,
        result("a", "unknown"),
        result("b"),
        BATCH_ENDS,
        TURN_ENDS,
        step(2),
    ],
    "a run's end before that of its batch": [*LEFT, ended()],
    "a plan without calls": [BEGUN, started(), step(), spoke(), batch()],
    "a plan without a message": [BEGUN, started(), step(), batch("a")],
    "a plan of other calls": [*WITH_CALLS, batch("a")],
    "a plan in another order": [*WITH_CALLS, batch("b", "a")],
    "a second plan": [*OPEN, batch("a", "b")],
    "an intent without a plan": [*WITH_CALLS, intent("a")],
    "an intent of an unplanned call": [*OPEN, intent("c")],
    "a second intent": [*OPEN, intent("a"), intent("a")],
    "an intent of a refused call": [
        *WITH_CALLS,
        batch("a", "b", disposition="no_dispatch"),
        intent("a"),
    ],
    "an intent behind an end": [*OPEN, result("a"), intent("a")],
    "a second result": [*LEFT, result("a"), result("a")],
    "a result of another batch": [*LEFT, result("a", batch="b2")],
    "a batch's end with a call open": [*LEFT, result("a"), BATCH_ENDS],
    "a second end of a batch": [*LEFT, result("a"), result("b"), BATCH_ENDS, BATCH_ENDS],
    "a turn's end before the batch's": [*LEFT, result("a"), result("b"), TURN_ENDS],
    "a second end of a turn": [*DONE, TURN_ENDS],
    "a question asked twice": [*WITH_CALLS, ASKED, ASKED],
    "a word that nobody asked for": [*WITH_CALLS, RESOLVED],
    "a second word": [*WITH_CALLS, ASKED, RESOLVED, RESOLVED],
}


def folded(sequence):
    fold = Fold(LINEAGE)
    for seq, fact in enumerate(sequence, 1):
        fold.apply(Seq(seq), fact)
    return fold


@pytest.mark.parametrize("sequence", IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_what_cannot_be_is_corrupt(sequence):
    folded(sequence[:-1])

    with pytest.raises(Corrupt):
        folded(sequence)


def test_a_gap_is_corrupt():
    with pytest.raises(Corrupt):
        folded([BEGUN]).apply(Seq(3), queued("q"))


@pytest.mark.parametrize("cut", range(1, len(DONE)))
def test_whole_turns_alone_are_in_the_prompt(cut):
    kinds = [type(each).__name__ for each in folded(DONE[:cut]).messages]

    assert kinds in (
        [],
        ["UserMessage"],
        ["UserMessage", "AssistantMessage", "ToolAnswers"],
    )


def test_a_steer_joins_behind_the_results_of_the_step_it_met():
    fold = folded([*LEFT, STEERED, result("a"), result("b"), BATCH_ENDS, TURN_ENDS, step(2)])

    assert [type(each).__name__ for each in fold.messages] == [
        "UserMessage",
        "AssistantMessage",
        "ToolAnswers",
        "UserMessage",
    ]


def test_a_cancel_is_never_made_weaker():
    now, boundary = (facts.RunCancelRequested(run_id="r", at=at) for at in ("now", "boundary"))

    assert folded([BEGUN, started(), now, boundary]).run.cancel == "now"
