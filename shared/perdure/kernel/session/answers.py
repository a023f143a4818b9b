"""What a model is told of each way in which a call can end, and the ids that calls are given."""

from __future__ import annotations

from typing import Final

from perdure.kernel.ids import CallBatchId, CallKey, Lineage, Seq, StepId
from perdure.kernel.session.facts import PlannedCall, ToolNoDispatch, ToolResult
from perdure.kernel.session.messages import Outcome, ToolAnswer

UNKNOWN_OUTCOME: Final = "unknown_outcome"
UNRESOLVED: Final = "unresolved"
"""Reason of an unknown end that lets the run go on: the call was declared safe to do again."""

NO_RESULT: Final = "The call has no recorded result: it may have happened, or not."
INTERRUPTED: Final = "The call was not made: its run ended before."
MAX_STEPS: Final = "The call was not made: the run had used all of its steps."


def told_error(code: str, detail: str) -> dict[str, str]:
    """Spell an error as a model is told of it."""
    return {"error": code, "detail": detail}


def is_interrupting(end: ToolResult) -> bool:
    """Say whether no model step of the run may follow an end."""
    return end.outcome == "unknown" and end.reason != UNRESOLVED


def unknown(
    batch: CallBatchId, tool_call_id: str, detail: str = NO_RESULT, *, reason: str = UNKNOWN_OUTCOME
) -> ToolResult:
    """Return the end of a call that may have happened."""
    return ToolResult(
        batch_id=batch,
        tool_call_id=tool_call_id,
        outcome="unknown",
        output=told_error(UNKNOWN_OUTCOME, detail),
        is_error=True,
        reason=reason,
    )


def interrupted(batch: CallBatchId, tool_call_id: str) -> ToolResult:
    """Return the end of a call that was never sent, since its run ends."""
    return _never_sent(batch, tool_call_id, "interrupted", INTERRUPTED)


def max_steps(batch: CallBatchId, tool_call_id: str) -> ToolResult:
    """Return the end of a call for which there was no step left."""
    return _never_sent(batch, tool_call_id, "max_steps", MAX_STEPS)


def _never_sent(batch: CallBatchId, tool_call_id: str, outcome: Outcome, detail: str) -> ToolResult:
    return ToolResult(
        batch_id=batch,
        tool_call_id=tool_call_id,
        outcome=outcome,
        output=told_error(outcome, detail),
        is_error=True,
    )


def answer_of(plan: PlannedCall, end: ToolResult | ToolNoDispatch) -> ToolAnswer:
    """Return what a model is told of a call."""
    if isinstance(end, ToolNoDispatch):
        detail = end.detail or "The call was not made."
        output, is_error = told_error(end.reason, detail), True
        return ToolAnswer(
            tool_call_id=plan.tool_call_id, name=plan.name, output=output, is_error=is_error
        )
    return ToolAnswer(
        tool_call_id=plan.tool_call_id, name=plan.name, output=end.output, is_error=end.is_error
    )


def step_id(episode: int, number: int) -> StepId:
    """Name a step of a run, from 1."""
    return StepId(f"s{episode}-{number}")


def batch_id(message_seq: Seq) -> CallBatchId:
    """Name the calls that the message at a seq asks for."""
    return CallBatchId(f"b{message_seq}")


def call_key(lineage: Lineage, message_seq: Seq, index: int) -> CallKey:
    """Make the key of a call, of the frame that first holds it.

    So it is the same after every restart, and another for each call, whatever a model calls it.
    """
    return CallKey(f"{lineage}-{message_seq}-{index}")
