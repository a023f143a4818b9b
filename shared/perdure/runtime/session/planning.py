"""Planning: what is to become of each call of a message, before any of them may leave."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from perdure.kernel.ids import CallBatchId
from perdure.kernel.session import answers
from perdure.kernel.session.config import FrozenTool
from perdure.kernel.session.facts import (
    ApprovalRequested,
    Fact,
    PlannedCall,
    SchemaPin,
    ToolBatchFinished,
    ToolBatchStarted,
    ToolDispatchIntent,
    ToolNoDispatch,
    ToolResult,
    TurnFinished,
)
from perdure.kernel.session.messages import Effect, ToolCall
from perdure.runtime.session.ports import ToolSpec
from perdure.runtime.session.toolbox import checked_call
from perdure.runtime.session.work import Work

End = Callable[[CallBatchId, str], ToolResult]
"""How a call of a batch ends that is not sent."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A call with its plan, and what else is to be said of it at once."""

    call: ToolCall
    plan: PlannedCall
    spec: ToolSpec | None
    detail: str | None = None
    needs_word: bool = False
    """It waits for an approval that nobody has given or denied."""


def planned(work: Work) -> list[Planned]:
    """Plan the calls of the open step, in their order."""
    step, fold = work.step, work.fold
    assert step.message is not None, "only a message has calls"
    tools = work.agent.tools
    found = []
    for index, call in enumerate(step.message.calls):
        key = answers.call_key(fold.lineage, step.message_seq, index)
        tool = tools.named(call.name)
        spec = None if tool is None else tool.spec
        frozen = work.run.config.tool(call.name)
        refusal = checked_call(spec, call, frozen)
        decision = fold.decisions.get(key)
        reason = detail = None
        if refusal is not None:
            reason, detail = refusal.code, refusal.detail
        elif decision is not None and decision.decision == "denied":
            reason, detail = "denied", decision.detail or "The call was not approved."
        needs_word = (
            reason is None and spec is not None and spec.needs_approval and decision is None
        )
        plan = PlannedCall(
            tool_call_id=call.tool_call_id,
            name=call.name,
            call_key=key,
            disposition="dispatchable" if reason is None else "no_dispatch",
            effect=_effect(spec, frozen),
            reason=reason,
        )
        found.append(Planned(call, plan, spec, detail, needs_word))
    return found


def longest_ms(calls: Sequence[Planned]) -> int:
    """Return how long calls may take at most: those that do harm twice one after another."""
    times = [
        (each.plan.effect, each.spec.timeout_ms)
        for each in calls
        if each.spec is not None and each.plan.disposition == "dispatchable"
    ]
    alone = sum(ms for effect, ms in times if effect == "effectful")
    return alone + max((ms for effect, ms in times if effect != "effectful"), default=0)


def approvals(work: Work, calls: Sequence[Planned]) -> list[Fact]:
    """Return a question for each call that waits for a word and was not asked about."""
    return [
        ApprovalRequested(
            tool_call_id=each.call.tool_call_id,
            call_key=each.plan.call_key,
            tool_name=each.call.name,
            args=each.call.args,
        )
        for each in calls
        if each.needs_word and each.plan.call_key not in work.fold.asked
    ]


def started(work: Work, calls: Sequence[Planned]) -> ToolBatchStarted:
    """Return the plan as a fact."""
    step = work.step
    return ToolBatchStarted(
        batch_id=answers.batch_id(step.message_seq),
        step_id=step.step_id,
        planned_calls=tuple(each.plan for each in calls),
    )


def intents(work: Work, calls: Sequence[Planned]) -> list[Fact]:
    """Return an intent for each call that may leave, and an end for each that never will."""
    batch = answers.batch_id(work.step.message_seq)
    facts: list[Fact] = []
    for each in calls:
        plan = each.plan
        if plan.disposition == "no_dispatch":
            facts.append(
                ToolNoDispatch(
                    batch_id=batch,
                    tool_call_id=plan.tool_call_id,
                    reason=plan.reason or "refused",
                    detail=each.detail,
                )
            )
            continue
        facts.append(intent(batch, each.call, each.spec))
    return facts


def intent(batch: CallBatchId, call: ToolCall, spec: ToolSpec | None) -> ToolDispatchIntent:
    """Return the intent of one call."""
    assert spec is not None, "only a tool that is there is dispatched to"
    return ToolDispatchIntent(
        batch_id=batch,
        tool_call_id=call.tool_call_id,
        tool_name=call.name,
        args=call.args,
        module_id=spec.module or None,
        schema_pin=SchemaPin(schema_digest=spec.schema_digest, semantics=spec.effect),
    )


def without_sending(
    work: Work, calls: Sequence[Planned], end: End, *, is_detailed: bool = True
) -> list[Fact]:
    """Return a plan of which nothing is sent, each call's end, and that of the turn.

    Without details it fits into what a journal keeps free for the end of a run.
    """
    batch = answers.batch_id(work.step.message_seq)
    begun = started(work, calls)
    facts: list[Fact] = [begun]
    for each in calls:
        if each.plan.disposition == "no_dispatch":
            facts += intents(work, [each if is_detailed else replace(each, detail=None)])
        else:
            facts.append(end(batch, each.plan.tool_call_id))
    return [*facts, ToolBatchFinished(batch_id=batch), TurnFinished(step_id=work.step.step_id)]


def drained(reason: str) -> End:
    """Return how a call ends whose scope is gone before it was sent."""

    def end(batch: CallBatchId, tool_call_id: str) -> ToolResult:
        return ToolResult(
            batch_id=batch,
            tool_call_id=tool_call_id,
            outcome="completed",
            output=answers.told_error(reason, "The call was not made: its scope is gone."),
            is_error=True,
            reason=reason,
        )

    return end


def _effect(spec: ToolSpec | None, frozen: FrozenTool | None) -> Effect:
    """Return how a call may be treated if nobody knows whether it happened: both must agree."""
    if spec is None or frozen is None or spec.effect != frozen.effect:
        return "effectful"
    return spec.effect
