"""Evidence: what a run did as rows of a private world, one tick a turn, written from its journal.

It is written when a run has ended, before the next one begins, and once more by whoever comes
next if its writer died: each into a world of its own. The journal names the one that is whole.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from perdure.kernel.component import Component
from perdure.kernel.errors import Contended, StaleWriter
from perdure.kernel.ids import AgentRunId, Instant, Lineage, Seq
from perdure.kernel.session import facts
from perdure.kernel.session.facts import EvidenceWritten, Fact
from perdure.kernel.session.frames import Place, verified
from perdure.kernel.session.read import ProveGap
from perdure.kernel.session.records import SessionRef
from perdure.kernel.session.transcript import ReadEntries, place_before
from perdure.runtime.session import payloads
from perdure.runtime.steady import steadily

if TYPE_CHECKING:
    from perdure.kernel.ids import WorldId
    from perdure.runtime.session.journal import Means
    from perdure.runtime.session.work import Evidence, Work

READ_TRIES: Final = 8

_LOGGER: Final = logging.getLogger(__name__)


class AgentRun(Component):
    """One run, at its last turn."""

    session_id: str
    run_id: str
    agent: str
    model: str
    reason: str
    code: str | None
    turns: int
    resumes: int
    input_tokens: int
    output_tokens: int
    started_ms: int
    ended_ms: int


class AgentTurn(Component):
    """One step of a model, and how much it asked for; ``seq`` is where it begins in the journal."""

    run_id: str
    turn: int
    step_id: str
    seq: int
    started_ms: int
    attempts: int
    text_characters: int
    calls: int
    input_tokens: int
    output_tokens: int


class AgentCall(Component):
    """One call and its end; ``seq`` is where the end is in the journal."""

    run_id: str
    turn: int
    call_key: str
    tool: str
    effect: str
    outcome: str
    is_error: bool
    reason: str | None
    seq: int


Row = AgentRun | AgentTurn | AgentCall

COMPONENTS: Final[tuple[type[Component], ...]] = (AgentRun, AgentTurn, AgentCall)


@dataclass(frozen=True, slots=True)
class Dated:
    """A fact, its place in the journal, and when it was committed."""

    seq: Seq
    at: Instant
    fact: Fact


@dataclass(slots=True)
class RunFacts:
    """Everything that a journal says of a run that has ended."""

    started: facts.RunStarted
    lineage: Lineage
    facts: list[Dated] = field(default_factory=list)

    @property
    def last(self) -> Dated:
        return self.facts[-1]


async def keep_evidence(work: Work) -> None:
    """Write the evidence that is missing, of a session that asks for it.

    What can not be written now stays missing, and keeps nobody from going on: the head says
    so, and whoever drives the session next tries again. Raises what an append raises.
    """
    keeper = work.crew.evidence
    if keeper is None or not work.journal.session.evidence:
        return
    head = await work.journal.renew()
    if not head.lacks_evidence:
        return
    ref, means = work.journal.ref, work.crew.means
    for run in await ended_runs(means, ref, head.evidence_through, head.lineage):
        if work.left_ms() <= 0:
            return
        try:
            world = await _watched(work, keeper, run)
        except StaleWriter:
            raise
        except Exception as error:  # noqa: BLE001  # evidence keeps nobody from going on
            _LOGGER.warning("no evidence of run %s: %r", run.started.run_id, error)
            return
        written = EvidenceWritten(
            run_id=run.started.run_id, world_id=world, through_seq=run.last.seq
        )
        await _noted(work, written)


async def _noted(work: Work, written: EvidenceWritten) -> None:
    await work.barrier(lambda: (written,), is_close_out=True)


async def _watched(work: Work, keeper: Evidence, run: RunFacts) -> WorldId:
    """Have a run written while the lease is kept alive."""
    epoch = work.journal.grip.epoch
    task = asyncio.ensure_future(keeper.write(work.journal.ref, run, epoch))
    try:
        while not task.done():
            await work.until_one([task])
            if not task.done():
                await work.look()
        return task.result()
    finally:
        if not task.done():
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await task


async def ended_runs(means: Means, ref: SessionRef, after: Seq, lineage: Lineage) -> list[RunFacts]:
    """Return the runs that began and ended behind a seq, which no run is open at.

    Raises: Corrupt, NewerWriter, PayloadMissing, Contended.
    """
    ended: list[RunFacts] = []
    run: RunFacts | None = None
    for dated in await _facts_behind(means, ref, after, lineage):
        match dated.fact:
            case facts.RunStarted():
                run = RunFacts(dated.fact, lineage, [dated])
            case facts.RunFinished() if run is not None:
                run.facts.append(dated)
                ended.append(run)
                run = None
            case _:
                if run is not None:
                    run.facts.append(dated)
    return ended


async def _facts_behind(means: Means, ref: SessionRef, after: Seq, lineage: Lineage) -> list[Dated]:
    found: list[Dated] = []
    place: Place | None = None
    seq = after
    while True:
        request = ReadEntries(ref, seq, lineage=lineage)
        try:
            page = await steadily(means.authority, request, tries=READ_TRIES, pause=means.pause)
        except Contended:
            await means.authority.execute(ProveGap(ref, seq))
            raise
        if not page.entries:
            return found
        frames = verified(lineage, place_before(page) if place is None else place, page.entries)
        moments = (entry.at for entry in page.entries for _ in entry.frames)
        for frame, at in zip(frames, moments, strict=True):
            fact = await payloads.fact_in(means.objects, ref, frame)
            if frame.seq > after and fact is not None:
                found.append(Dated(frame.seq, at, fact))
        place = Place(frames[-1].seq, frames[-1].digest)
        seq = place.seq
        if page.is_last:
            return found


@dataclass(slots=True)
class _Turn:
    """What the facts of one turn come to."""

    step_id: str
    begun: Dated
    attempts: int = 0
    message: facts.ModelStepFinished | None = None
    plans: dict[str, facts.PlannedCall] = field(default_factory=dict)
    ends: dict[str, Dated] = field(default_factory=dict)


def rows_of(ref: SessionRef, run: RunFacts) -> list[tuple[int, Row]]:
    """Return the rows of a run, each with its tick: 0 for the first turn."""
    turns = _turns(run)
    rows: list[tuple[int, Row]] = []
    for number, turn in enumerate(turns, start=1):
        rows.append((number - 1, _turn_row(run.started.run_id, number, turn)))
        rows += [(number - 1, each) for each in _call_rows(run.started.run_id, number, turn)]
    return [*rows, (max(len(turns) - 1, 0), _run_row(ref, run, len(turns)))]


def _turns(run: RunFacts) -> list[_Turn]:
    turns: list[_Turn] = []
    for dated in run.facts:
        match dated.fact:
            case facts.StepStarted() as fact:
                if not turns or turns[-1].step_id != fact.step_id:  # else begun again
                    turns.append(_Turn(fact.step_id, dated))
            case facts.ModelAttemptFinished():
                turns[-1].attempts += 1
            case facts.ModelStepFinished() as fact:
                turns[-1].message = fact
            case facts.ToolBatchStarted() as fact:
                turns[-1].plans = {plan.tool_call_id: plan for plan in fact.planned_calls}
            case facts.ToolResult() | facts.ToolNoDispatch() as fact:
                turns[-1].ends[fact.tool_call_id] = dated
            case _:
                pass
    return turns


def _turn_row(run: AgentRunId, number: int, turn: _Turn) -> AgentTurn:
    message = turn.message
    return AgentTurn(
        run_id=run,
        turn=number,
        step_id=turn.step_id,
        seq=turn.begun.seq,
        started_ms=turn.begun.at,
        attempts=turn.attempts,
        text_characters=0 if message is None else len(message.assistant_message.text),
        calls=0 if message is None else len(message.assistant_message.calls),
        input_tokens=0 if message is None else message.usage.input_tokens,
        output_tokens=0 if message is None else message.usage.output_tokens,
    )


def _call_rows(run: AgentRunId, number: int, turn: _Turn) -> Iterator[AgentCall]:
    for name, plan in turn.plans.items():
        end = turn.ends[name]
        result = end.fact if isinstance(end.fact, facts.ToolResult) else None
        refused = end.fact.reason if isinstance(end.fact, facts.ToolNoDispatch) else None
        yield AgentCall(
            run_id=run,
            turn=number,
            call_key=plan.call_key,
            tool=plan.name,
            effect=plan.effect,
            outcome="not_dispatched" if result is None else result.outcome,
            is_error=result is None or result.is_error,
            reason=refused if result is None else result.reason,
            seq=end.seq,
        )


def _run_row(ref: SessionRef, run: RunFacts, turns: int) -> AgentRun:
    end, config = run.last.fact, run.started.config
    assert isinstance(end, facts.RunFinished), "only runs that have ended are written"
    return AgentRun(
        session_id=ref.session,
        run_id=end.run_id,
        agent=config.agent,
        model=config.model,
        reason=end.reason,
        code=end.code,
        turns=turns,
        resumes=sum(isinstance(each.fact, facts.ResumeStarted) for each in run.facts),
        input_tokens=end.usage.input_tokens,
        output_tokens=end.usage.output_tokens,
        started_ms=run.facts[0].at,
        ended_ms=run.last.at,
    )
