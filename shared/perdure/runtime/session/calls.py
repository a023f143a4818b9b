"""Calls: a batch leaves after its intents are durable, and is seen after its results are."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from perdure.kernel import limits
from perdure.kernel.canonical import canonical
from perdure.kernel.errors import InvalidValue, SessionTooLarge, TooLarge
from perdure.kernel.ids import CallBatchId, Instant
from perdure.kernel.session import answers
from perdure.kernel.session.facts import Fact, ToolNoDispatch, ToolResult
from perdure.kernel.session.fold import Call
from perdure.kernel.session.frames import prepared
from perdure.kernel.session.messages import Effect
from perdure.runtime.session.ports import (
    CallOutcome,
    CallRequest,
    Completed,
    NotSent,
    OutcomeNotKnown,
    ScopeDrained,
    Tool,
    ToolSpec,
)
from perdure.runtime.session.resolve import resolve
from perdure.runtime.session.work import Work

CALLS_AT_ONCE: Final = 8
"""Calls that do no harm twice and are made side by side; others are made one after another."""

OUTPUT_BYTES_MAX: Final = limits.FRAME_BYTES_MAX - 65_536
"""Bytes of a tool's output in the journal."""


async def close_out(work: Work) -> None:
    """End a batch of which a call may have happened, and nobody may say more: nothing is sent.

    The first of two barriers; the second is the end of the run.
    """

    def think() -> list[Fact]:
        return [*ends(work), *work.turn_ends()]

    work.indeterminate = [
        call.plan.call_key for call in work.batch.calls.values() if call.may_have_happened
    ]
    await work.barrier(think, is_close_out=True)


def ends(work: Work) -> list[Fact]:
    """Return an end for each open call: unknown if it may have left, else that it did not."""
    batch = work.batch
    ends: list[Fact] = []
    for call in batch.open:
        name, plan = call.plan.tool_call_id, call.plan
        has_left = call.intent is not None and not _never_left(work, call)
        if has_left:
            ends.append(answers.unknown(batch.batch_id, name))
        elif plan.disposition == "no_dispatch":
            ends.append(no_dispatch(work, call))
        else:
            ends.append(answers.interrupted(batch.batch_id, name))
    return ends


def no_dispatch(work: Work, call: Call) -> ToolNoDispatch:
    """Return the end that the plan of a call says."""
    reason = call.plan.reason or "refused"
    return ToolNoDispatch(
        batch_id=work.batch.batch_id, tool_call_id=call.plan.tool_call_id, reason=reason
    )


def _never_left(work: Work, call: Call) -> bool:
    """Say whether this process knows that a call with an intent was not sent."""
    key = call.plan.call_key
    return key in work.mine and key not in work.sent


def must_close(work: Work) -> bool:
    """Say whether a call of the open batch may have happened and must not be made again."""
    for call in work.batch.calls.values():
        if call.end is not None or call.intent is None or call.plan.call_key in work.mine:
            continue
        if not is_safe(work, call) or work.run.resumes >= limits.RESUMES_MAX:
            return True
    return work.run.interrupting


def is_safe(work: Work, call: Call) -> bool:
    """Say whether a call may be made again: its plan and its tool must both say so."""
    tool = _tool(work, call)
    return tool is not None and tool.spec.effect == call.plan.effect != "effectful"


def _tool(work: Work, call: Call) -> Tool | None:
    return work.agent.tools.named(call.plan.name)


class Dispatching:
    """Sends the calls of one batch and makes their results durable as they come."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._step, self._batch = work.step, work.batch
        self._running: dict[asyncio.Task[CallOutcome], Call] = {}
        self._done: list[tuple[Call, CallOutcome]] = []
        self._stopped = False
        """Nothing more is sent: a call may have happened, or the run shall end now."""

        self._full: SessionTooLarge | None = None
        """The journal has no more room: what comes back is written short, and nothing follows."""

    async def run(self) -> None:
        """Bring the open batch to its end. Raises what an append raises."""
        try:
            while not self._step.finished:
                await self._send()
                if self._running:
                    self._collect(await self._work.until_one(list(self._running)))
                if self._done or not self._running:
                    await self._record()
                else:
                    await self._work.look()
            if self._full is not None:
                raise self._full
        finally:
            await self._abandon()

    async def _send(self) -> None:
        """Send what may be sent now, as long as the lease lasts."""
        for call in self._waiting():
            if self._stopped or self._work.run.cancel == "now":
                self._stopped = True
                return
            if not self._may_start(call):
                continue
            while not self._work.holds():
                await self._work.journal.renew()
            self._start(call)

    def _waiting(self) -> list[Call]:
        running = {call.plan.call_key for call in self._running.values()}
        return [
            call
            for call in self._batch.open
            if call.intent is not None and call.plan.call_key not in running | self._work.sent
        ]

    def _may_start(self, call: Call) -> bool:
        if is_safe(self._work, call):
            return len(self._running) < CALLS_AT_ONCE
        return all(is_safe(self._work, other) for other in self._running.values())

    def _start(self, call: Call) -> None:
        work, tool = self._work, _tool(self._work, call)
        assert call.intent is not None, "nothing is sent without an intent"
        key = call.plan.call_key
        now = work.crew.means.now()
        if tool is None:  # a redeployment has taken it away since the plan
            self._done.append((call, NotSent("tool_unavailable", "The tool is not there.")))
            work.sent.add(key)
            return
        request = CallRequest(
            session=work.journal.ref.session,
            run=work.run.run_id,
            call_key=key,
            tool_call_id=call.plan.tool_call_id,
            name=call.plan.name,
            args=call.intent.args,
            deadline=Instant(now + min(tool.spec.timeout_ms, work.left_ms())),
            actor=work.journal.session.owner,
        )
        work.sent.add(key)
        made = _made(work, tool, request, call.plan.effect)
        self._running[asyncio.ensure_future(made)] = call

    def _collect(self, done: Sequence[asyncio.Task[CallOutcome]]) -> None:
        for task in done:
            call = self._running.pop(task)
            outcome = task.result()
            self._done.append((call, outcome))
            is_unknown = isinstance(outcome, OutcomeNotKnown) and not is_safe(self._work, call)
            is_drained = isinstance(outcome, ScopeDrained) and outcome.sent
            self._stopped |= is_unknown or is_drained

    async def _record(self) -> None:
        """Make durable what has come back, and with the last of it the end of the turn."""
        try:
            await self._written([self._result(*done) for done in self._done])
        except SessionTooLarge as error:
            self._full, self._stopped = error, True
            await self._written([_short(self._result(*done)) for done in self._done])
        self._work.has_done_something = True
        self._done.clear()

    async def _written(self, results: Sequence[ToolResult]) -> None:
        def think() -> Sequence[Fact] | None:
            facts: list[Fact] = list(results)
            ended = {each.tool_call_id for each in results}
            is_stopped = self._stopped or self._work.run.cancel == "now"
            left = [each for each in self._batch.open if each.plan.tool_call_id not in ended]
            if is_stopped and not self._running:
                facts += [_unsent(self._work, each) for each in left]
                left = []
            if left:
                return facts or None
            facts += self._work.turn_ends()
            unknown = any(answers.is_interrupting(each) for each in results)
            if not unknown and not self._work.run.interrupting and self._full is None:
                facts += self._work.following()
            return facts

        await self._work.barrier(think, is_close_out=self._full is not None)

    def _result(self, call: Call, outcome: CallOutcome) -> ToolResult:
        result = result_of(self._batch.batch_id, call, outcome, is_safe=is_safe(self._work, call))
        try:
            prepared(result)
        except (InvalidValue, TooLarge) as error:  # what has happened is told all the same
            told = answers.told_error("tool_output_invalid", f"The journal takes no {error.found}.")
            return replace(result, output=told, is_error=True)
        return result

    async def _abandon(self) -> None:
        """Let go of calls under way: whoever comes next finds their intents without an end."""
        for task in self._running:
            task.cancel()
        for task in self._running:
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await task


def _short(result: ToolResult) -> ToolResult:
    """Return the end of a call without what the tool said, for which there is no room."""
    told = answers.told_error(
        SessionTooLarge.code, "The tool has answered; there is no room for it."
    )
    return replace(result, output=told, is_error=True)


def _unsent(work: Work, call: Call) -> Fact:
    """Return the end of a call that is not sent, or not again: another process may have sent it."""
    batch, name = work.batch.batch_id, call.plan.tool_call_id
    if call.plan.disposition == "no_dispatch":
        return no_dispatch(work, call)
    if call.intent is None or _never_left(work, call):
        return answers.interrupted(batch, name)
    reason = answers.UNRESOLVED if is_safe(work, call) else answers.UNKNOWN_OUTCOME
    return answers.unknown(batch, name, reason=reason)


async def _made(work: Work, tool: Tool, request: CallRequest, effect: Effect) -> CallOutcome:
    """Make a call; whatever goes wrong with that is no proof that it did not happen."""
    try:
        means, leased = work.crew.means, _leased(work, tool)
        return await resolve(leased, request, now=means.now, pause=means.pause, effect=effect)
    except Exception as error:  # noqa: BLE001  # a tool is not ours, and may raise anything
        return OutcomeNotKnown(type(error).__name__, "The tool broke off.")


LEASE_OVER: Final = "lease_over"


@dataclass(frozen=True, slots=True)
class _Leased:
    """A tool that is called only under a lease: also when a call is made again after a pause."""

    work: Work
    tool: Tool

    @property
    def spec(self) -> ToolSpec:
        return self.tool.spec

    async def call(self, request: CallRequest) -> CallOutcome:
        if not self.work.holds():
            return NotSent(LEASE_OVER, "The call was not made: its process had lost the session.")
        return await self.tool.call(request)


class _LeasedAskable(_Leased):
    """The same, of a tool that can be asked what became of a call."""

    async def ask(self, request: CallRequest) -> CallOutcome | None:
        if not self.work.holds():
            return None  # whoever goes on with the session asks
        asked: CallOutcome | None = await self.tool.ask(request)  # type: ignore[attr-defined]
        return asked


def _leased(work: Work, tool: Tool) -> Tool:
    return (_LeasedAskable if hasattr(tool, "ask") else _Leased)(work, tool)


def result_of(
    batch_id: CallBatchId, call: Call, outcome: CallOutcome, *, is_safe: bool
) -> ToolResult:
    """Return the end of a call as it came back."""
    name = call.plan.tool_call_id
    match outcome:
        case Completed():
            output, is_error = _kept(outcome)
            return ToolResult(
                batch_id=batch_id,
                tool_call_id=name,
                outcome="completed",
                output=output,
                is_error=is_error,
            )
        case NotSent(code, detail):
            return ToolResult(
                batch_id=batch_id,
                tool_call_id=name,
                outcome="completed",
                output=answers.told_error(code, detail),
                is_error=True,
                reason="not_sent",
            )
        case OutcomeNotKnown(code, detail):
            told = f"{answers.NO_RESULT} ({code}: {detail})"
            reason = answers.UNRESOLVED if is_safe else answers.UNKNOWN_OUTCOME
            return answers.unknown(batch_id, name, told, reason=reason)
        case ScopeDrained(reason, sent=True):
            return answers.unknown(batch_id, name, reason=reason)
        case ScopeDrained(reason):
            return ToolResult(
                batch_id=batch_id,
                tool_call_id=name,
                outcome="completed",
                output=answers.told_error("route_drained", reason),
                is_error=True,
                reason=reason,
            )


def _kept(done: Completed) -> tuple[object, bool]:
    """Return what a tool said as the journal can keep it."""
    try:
        size = len(canonical(done.output))
    except (TypeError, ValueError, RecursionError):
        return answers.told_error("tool_output_invalid", "The tool's answer is no JSON."), True
    if size > OUTPUT_BYTES_MAX:
        told = f"The tool's answer has {size} bytes; at most {OUTPUT_BYTES_MAX} are kept."
        return answers.told_error("tool_output_too_large", told), True
    return done.output, done.is_error
