"""The runner: goes on with a session from wherever its journal stops, and stops anywhere.

What it does next follows from the fold alone, so that a process which begins anew and one which
has been here all along take the same way. What only a living process can know, that a call with
an intent has not left yet, is written down before it lets go.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from perdure.kernel import limits
from perdure.kernel.errors import SessionTooLarge, StaleWriter, TooLarge, Unavailable
from perdure.kernel.ids import AgentRunId, Instant, SendId
from perdure.kernel.session import answers
from perdure.kernel.session.facts import (
    Fact,
    Reason,
    Retracted,
    RunStarted,
    StepStarted,
    ToolResult,
    TurnFinished,
)
from perdure.kernel.session.fold import Call, Step
from perdure.kernel.session.records import SessionRef
from perdure.runtime.session import calls, planning
from perdure.runtime.session.agent import checked_overrides
from perdure.runtime.session.evidence import keep_evidence
from perdure.runtime.session.journal import Journal
from perdure.runtime.session.steps import model_step
from perdure.runtime.session.work import Crew, Told, Work, unheard

RESTART_LIMIT: Final = "restart_limit"

RETRACTED_AT_ONCE: Final = 50
"""Sends that one commit takes back: each is a record beside entry and head (COMMIT_ACTIONS_MAX)."""

Stopped = Literal["idle", "paused", "out_of_time"]


@dataclass(frozen=True, slots=True)
class Driven:
    """Where a session was left, and the runs that ended on the way."""

    state: Stopped
    ended: tuple[AgentRunId, ...] = ()


async def drive(crew: Crew, ref: SessionRef, *, deadline: Instant, told: Told = unheard) -> Driven:
    """Go on with a session until nothing is to be done, somebody must be asked, or time is over.

    ``told`` hears text as a model says it, and facts when they are durable, never before.
    Raises: NotFound, FenceHeld, UnknownAgent, Corrupt, NewerWriter, PayloadMissing, StaleWriter,
    Unavailable kinds; then whoever drives it next goes on from what is durable.
    """
    journal = await Journal.open(crew.means, ref, crew.holder, crew.lease_ms)
    run = journal.fold.run
    is_resuming = run is not None and run.owned
    work = Work(crew, journal, deadline, told, is_resuming=is_resuming)
    try:
        driven = await _Runner(work).run()
        with contextlib.suppress(Unavailable):  # it only saves the next one some reading
            await journal.keep_fold()
        return driven
    finally:
        with contextlib.suppress(Unavailable, StaleWriter):  # its lease runs out by itself
            await journal.let_go()


class _Runner:
    def __init__(self, work: Work) -> None:
        self._work = work
        self._ended: list[AgentRunId] = []

    async def run(self) -> Driven:
        work = self._work
        while True:
            if work.fold.run is None:
                work.is_resuming = False
                await keep_evidence(work)
                if work.left_ms() <= 0 and work.fold.queue:
                    return self._driven("out_of_time")
                if not await self._begin_next():
                    return self._driven("idle")
                if work.fold.run is None:
                    continue
            run = work.run.run_id
            state = await self._to_the_end()
            if state is not None:
                return self._driven(state)
            self._ended.append(run)

    def _driven(self, state: Stopped) -> Driven:
        return Driven(state, tuple(self._ended))

    async def _begin_next(self) -> bool:
        """Begin the run of the send that waits longest, interrupting ones first."""
        work = self._work

        def think() -> list[Fact] | None:
            waiting = work.fold.next_waiting()
            if waiting is None or work.fold.run is not None:
                return None
            asked = waiting.request
            agent = work.crew.agent(work.journal.session.agent)
            return [
                RunStarted(
                    run_id=asked.run_id,
                    session_id=work.journal.ref.session,
                    config=agent.config(checked_overrides(asked.overrides)),
                    input=asked.input,
                    scope=asked.scope,
                    submission_id=waiting.submission_id,
                )
            ]

        try:
            return await work.barrier(think) or work.fold.run is not None
        except SessionTooLarge:
            await self._retract(list(work.fold.queue))
            return False
        except TooLarge:  # with what its agent has become since, no frame can hold it
            waiting = work.fold.next_waiting()
            return waiting is not None and await self._retract([waiting.submission_id])

    async def _to_the_end(self) -> Stopped | None:
        """Work on the present run until it has ended (None), or must be left."""
        try:
            while self._work.fold.run is not None:
                state = await self._next()
                if state is not None:
                    return state
        except SessionTooLarge as error:
            await self._too_large(error)
        return None

    async def _next(self) -> Stopped | None:
        """Do what follows from the fold. Whatever is durable after it, the next call goes on."""
        work = self._work
        step = work.run.step
        if step is None or step.finished:
            return await self._at_boundary()
        if step.message is None:
            return await self._without_message()
        if step.is_natural_end:
            end: tuple[Fact, ...] = (TurnFinished(step_id=step.step_id),)
            await work.barrier(lambda: (*end, work.finished("completed")))
            return None
        return await self._with_calls(step)

    async def _with_calls(self, step: Step) -> Stopped | None:
        work = self._work
        if step.batch is None:
            return await self._plan()
        if step.batch_finished:
            await work.barrier(lambda: (TurnFinished(step_id=step.step_id),))
            return None
        if calls.must_close(work):
            await calls.close_out(work)
            return None
        return await self._batch()

    async def _at_boundary(self) -> Stopped | None:
        work = self._work
        if work.run.interrupting:
            await work.barrier(lambda: (work.finished("interrupted"),), is_close_out=True)
            return None
        if work.left_ms() <= 0 and work.run.cancel is None:
            return "out_of_time"
        if work.run.resumes >= limits.RESUMES_MAX and work.run.cancel is None:
            await work.barrier(lambda: (work.finished("error", RESTART_LIMIT),))
            return None
        await work.barrier(work.following)
        return None

    async def _without_message(self) -> Stopped | None:
        work = self._work
        if work.run.cancel is not None:
            await work.barrier(lambda: (work.finished("cancelled"),))
            return None
        if work.run.resumes >= limits.RESUMES_MAX:
            await work.barrier(lambda: (work.finished("error", RESTART_LIMIT),))
            return None
        if work.left_ms() <= 0:
            return "out_of_time"
        if work.is_resuming:
            # Before the model is asked again: a model that kills its process is counted so.
            work.redone = [work.step.step_id]
            again = StepStarted(step_id=work.step.step_id, episode=work.run.episode)
            await work.barrier(lambda: None if work.run.cancel is not None else (again,))
            if work.run.cancel is not None:
                return None  # somebody asked for the end while this process began
        return "out_of_time" if await model_step(work) == "out_of_time" else None

    async def _plan(self) -> Stopped | None:
        """Decide what becomes of each call; then make that durable before any may leave."""
        work = self._work
        tools = work.agent.tools
        gone = await tools.scope_ended(work.journal.ref.session)
        if gone is not None:
            end = planning.drained(gone)
            await work.barrier(lambda: self._unsent(end, "interrupted"))
            return None
        if not self._fits(planning.planned(work)):
            return "out_of_time"

        def think() -> list[Fact] | None:
            planned = planning.planned(work)
            if work.run.cancel is not None:
                return self._unsent(answers.interrupted, "cancelled")
            if work.run.steps >= work.run.config.max_steps:
                return self._unsent(answers.max_steps, "max_steps")
            if any(each.needs_word for each in planned):
                return planning.approvals(work, planned) or None
            work.mine = {each.plan.call_key for each in planned}
            return [planning.started(work, planned), *planning.intents(work, planned)]

        await work.barrier(think)
        if work.fold.run is not None and not work.step.finished and work.step.batch is None:
            return "paused"
        return None

    def _unsent(self, end: planning.End, reason: Reason) -> list[Fact]:
        """Return a plan of which nothing is sent, and the end of the run."""
        work = self._work
        return [
            *planning.without_sending(work, planning.planned(work), end),
            work.finished(reason),
        ]

    def _fits(self, planned: list[planning.Planned]) -> bool:
        """Say whether the calls end in time; if not, whether another process has more of it."""
        return planning.longest_ms(planned) <= self._work.left_ms() or not (
            self._work.has_done_something
        )

    async def _batch(self) -> Stopped | None:
        """Make the calls of the open batch that may be made, and write down how they ended."""
        work = self._work
        missing = [call for call in work.batch.open if call.intent is None]
        if missing:
            await work.barrier(lambda: self._missing(missing))
        if work.is_resuming:
            # Before anything is done again: a call that kills its process is counted so.
            work.redone = [call.plan.call_key for call in work.batch.open]
            await work.barrier(lambda: ())
        await calls.Dispatching(work).run()
        return None

    def _missing(self, missing: list[Call]) -> list[Fact]:
        """Return what the plan of calls says that was not written with it."""
        work = self._work
        by_id = {each.plan.tool_call_id: each for each in planning.planned(work)}
        facts: list[Fact] = []
        for call in missing:
            now = by_id[call.plan.tool_call_id]
            if call.plan.disposition == "no_dispatch":
                facts.append(calls.no_dispatch(work, call))
            elif now.plan.disposition == "no_dispatch":  # its tool has changed since
                facts += planning.intents(work, [now])
            else:
                work.mine.add(call.plan.call_key)
                facts.append(planning.intent(work.batch.batch_id, now.call, now.spec))
        return facts

    async def _too_large(self, error: SessionTooLarge) -> None:
        """End a run for which its journal has no more room, with what was kept free for that."""
        work = self._work

        def think() -> list[Fact]:
            step = work.run.step
            facts: list[Fact] = []
            if step is not None and step.message is not None and not step.finished:
                if step.is_natural_end:
                    facts.append(TurnFinished(step_id=step.step_id))
                elif step.batch is None:
                    planned = planning.planned(work)
                    facts += planning.without_sending(
                        work, planned, answers.interrupted, is_detailed=False
                    )
                else:
                    facts += [*calls.ends(work), *work.turn_ends()]
            is_unknown = any(
                isinstance(each, ToolResult) and answers.is_interrupting(each) for each in facts
            )
            reason: Reason = "interrupted" if work.run.interrupting or is_unknown else "error"
            return [*facts, work.finished(reason, error.code)]

        await work.barrier(think, is_close_out=True)

    async def _retract(self, sends: Sequence[SendId]) -> bool:
        """Take back sends that can not begin; say whether one of them still waited."""

        def think() -> list[Fact] | None:
            waiting = [each for each in sends if each in self._work.fold.queue]
            some = waiting[:RETRACTED_AT_ONCE]
            return [Retracted(submission_id=each) for each in some] or None

        found = False
        while await self._work.barrier(think, is_close_out=True):
            found = True
        return found
