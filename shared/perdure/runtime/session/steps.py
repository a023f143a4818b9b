"""Steps: a model is asked for one message, and nothing of it is kept before it is whole."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, Literal

from perdure.kernel import limits
from perdure.kernel.canonical import canonical
from perdure.kernel.errors import InvalidValue, PerdureError, Refused, TooLarge, Unavailable
from perdure.kernel.ids import Instant
from perdure.kernel.session.facts import Fact, ModelAttemptFinished, ModelStepFinished
from perdure.kernel.session.messages import AssistantMessage, Attempt, ToolCall
from perdure.runtime.session.ports import ModelCall, ModelReply, ModelRequest, ToolSpec
from perdure.runtime.session.work import Said, Work

Stepped = Literal["spoke", "ended", "out_of_time"]

TOO_MANY_CALLS = "too_many_calls"

_NO_NAME: Final = re.compile(r"[^A-Za-z0-9_-]")


async def model_step(work: Work) -> Stepped:
    """Ask the model, and make its message durable, or the end that comes instead.

    Raises what an append raises.
    """
    attempts: list[Attempt] = []
    run, agent = work.run, work.agent
    try:
        model = work.crew.model(run.config.model)
    except Refused as error:  # its address leads nowhere: asking again changes nothing
        return await _ended(work, attempts, error.code)
    now = work.crew.means.now()
    deadline = Instant(min(now + agent.step_ms, work.deadline - _reserved(work)))
    request = ModelRequest(
        system=run.config.system,
        messages=tuple(work.fold.messages),
        tools=_offered(work, agent.tools.specs()),
        options=run.config.options,
    )
    call = ModelCall(
        deadline=deadline,
        said=lambda text: work.told(Said(text)),
        attempted=attempts.append,
    )
    task = asyncio.ensure_future(model.step(request, call))
    try:
        reply = await _watched(work, task, deadline)
    except PerdureError as error:
        return await _failed(work, error, attempts, was_cut=deadline < now + agent.step_ms)
    finally:
        if not task.done():
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await task
    if reply is None:
        return await _cut(work, attempts, is_late=work.run.cancel != "now")
    return await _spoken(work, reply, attempts)


async def _watched(
    work: Work, task: asyncio.Task[ModelReply], deadline: Instant
) -> ModelReply | None:
    """Return the reply, or None if the run shall end now or time is over."""
    while not task.done():
        await work.until_one([task])
        if task.done():
            break
        await work.look()
        if work.run.cancel == "now" or work.crew.means.now() >= deadline:
            return None
    return task.result()


async def _spoken(work: Work, reply: ModelReply, attempts: Sequence[Attempt]) -> Stepped:
    message = _named(reply.message)
    if len(message.calls) > limits.CALLS_MAX:
        return await _ended(work, attempts, TOO_MANY_CALLS)
    step = work.step.step_id
    finished = ModelStepFinished(step_id=step, assistant_message=message, usage=reply.usage)

    def think() -> list[Fact]:
        return [*_told(work, attempts), finished]

    try:
        await work.barrier(think)
    except (InvalidValue, TooLarge) as error:  # no frame holds it, however often the model is asked
        return await _ended(work, attempts, error.code)
    work.has_done_something = True
    return "spoke"


async def _failed(
    work: Work, error: PerdureError, attempts: Sequence[Attempt], *, was_cut: bool
) -> Stepped:
    """End the run of a model that fails, unless it only had too little time left."""
    if was_cut and work.has_done_something and isinstance(error, Unavailable):
        return "out_of_time"
    return await _ended(work, attempts, error.code)


async def _ended(work: Work, attempts: Sequence[Attempt], code: str) -> Stepped:
    await work.barrier(lambda: [*_told(work, attempts), work.finished("error", code)])
    return "ended"


async def _cut(work: Work, attempts: Sequence[Attempt], *, is_late: bool) -> Stepped:
    if is_late and work.has_done_something:
        return "out_of_time"
    if is_late:
        return await _ended(work, attempts, "model_unavailable")
    await work.barrier(lambda: [*_told(work, attempts), work.finished("cancelled")])
    return "ended"


def _told(work: Work, attempts: Sequence[Attempt]) -> list[Fact]:
    step = work.step.step_id
    return [ModelAttemptFinished(step_id=step, attempt=each) for each in attempts]


def _offered(work: Work, specs: Sequence[ToolSpec]) -> tuple[ToolSpec, ...]:
    """Return the tools of now that the run began with: of others it knows nothing."""
    return tuple(spec for spec in specs if work.run.config.tool(spec.name) is not None)


def _named(message: AssistantMessage) -> AssistantMessage:
    """Return a message whose calls have ids that differ and are short enough to be kept."""
    taken: set[str] = set()
    calls: list[ToolCall] = []
    for index, call in enumerate(message.calls):
        name = call.tool_call_id
        fits = name and len(canonical(name)) - 2 <= limits.TOOL_CALL_ID_BYTES_MAX
        if not fits or name in taken:
            name = f"call_{index}"
            while name in taken:
                name += "_"
        taken.add(name)
        calls.append(replace(call, tool_call_id=name, name=_short(call.name)))
    return replace(message, calls=tuple(calls))


def _short(name: str) -> str:
    """Return a tool's name, cut if no tool can have it: each plan of a call must stay small."""
    if len(canonical(name)) - 2 <= limits.TOOL_CALL_ID_BYTES_MAX:
        return name
    return f"{_NO_NAME.sub('_', name)[:63]}…"  # which no tool's name has


def _reserved(work: Work) -> int:
    return work.deadline - work.crew.means.now() - work.left_ms()
