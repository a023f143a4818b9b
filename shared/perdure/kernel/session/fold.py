"""The fold: what a journal comes to. Pure, frame by frame, and the same for every reader.

It holds what the next step needs: the prompt, the present run with its open step and batch, and
the sends that wait. What cannot be, once every frame was written by these rules, is Corrupt.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from perdure.kernel.errors import Corrupt
from perdure.kernel.ids import AgentRunId, CallBatchId, CallKey, Lineage, SendId, Seq, StepId
from perdure.kernel.session import facts
from perdure.kernel.session.answers import answer_of, is_interrupting
from perdure.kernel.session.config import RunConfig, Scope
from perdure.kernel.session.facts import (
    CancelAt,
    Fact,
    PlannedCall,
    Reason,
    ToolNoDispatch,
    ToolResult,
)
from perdure.kernel.session.messages import (
    AssistantMessage,
    Message,
    ToolAnswers,
    Usage,
    UserMessage,
)


@dataclass(slots=True)
class Call:
    """A planned call, and how far it has come."""

    plan: PlannedCall
    intent: facts.ToolDispatchIntent | None = None
    end: ToolResult | ToolNoDispatch | None = None

    @property
    def may_have_happened(self) -> bool:
        """An intent without an end, or an end that says so: never sent again if effectful."""
        if isinstance(self.end, ToolResult):
            return self.end.outcome == "unknown"
        return self.intent is not None and self.end is None

    @property
    def never_left(self) -> bool:
        return self.intent is None and self.end is None


@dataclass(slots=True)
class Batch:
    """The calls of one step, in the order in which the model named them."""

    batch_id: CallBatchId
    calls: dict[str, Call]

    @property
    def open(self) -> list[Call]:
        return [call for call in self.calls.values() if call.end is None]


@dataclass(slots=True)
class Step:
    """One turn: a model's message and what came of its calls."""

    step_id: StepId
    seq: Seq
    message: AssistantMessage | None = None
    message_seq: Seq = Seq(0)
    batch: Batch | None = None
    batch_finished: bool = False
    finished: bool = False

    @property
    def is_natural_end(self) -> bool:
        """The model was done: nothing follows but the end of the run."""
        return self.message is not None and not self.message.calls


@dataclass(slots=True)
class Run:
    """The present run."""

    run_id: AgentRunId
    config: RunConfig
    episode: int
    seq: Seq
    scope: Scope | None
    steps: int = 0
    step: Step | None = None
    usage: Usage = field(default_factory=Usage)
    cancel: CancelAt | None = None
    resumes: int = 0
    """Times in a row that another process went on with it and no turn was finished since."""

    owned: bool = False
    """Whoever holds the fence has written something of it."""

    interrupting: bool = False
    """A call of it may have happened, and was not declared safe."""


@dataclass(slots=True)
class Waiting:
    """A send that waits for its run."""

    submission_id: SendId
    request: facts.QueuedRequest
    is_interrupt: bool


@dataclass(slots=True)
class Fold:
    """The state of a session after a seq."""

    lineage: Lineage
    seq: Seq = Seq(0)
    messages: list[Message] = field(default_factory=list)
    """The prompt: whole turns only."""

    run: Run | None = None
    runs: int = 0
    queue: dict[SendId, Waiting] = field(default_factory=dict)
    steered: list[facts.Steered] = field(default_factory=list)
    """What joins the prompt at the next step, or at the end of the run."""

    decisions: dict[CallKey, facts.ApprovalResolved] = field(default_factory=dict)
    asked: dict[CallKey, facts.ApprovalRequested] = field(default_factory=dict)
    last_reason: Reason | None = None
    model_steps: int = 0
    tool_results: int = 0

    def next_waiting(self) -> Waiting | None:
        """Return the send whose run comes next: interrupting ones before plain ones."""
        waiting = list(self.queue.values())
        return next((each for each in waiting if each.is_interrupt), next(iter(waiting), None))

    def apply(self, seq: Seq, fact: Fact | None) -> None:
        """Take in one frame. None is a type that may be skipped. Raises Corrupt."""
        if seq != self.seq + 1:
            raise Corrupt(expected=f"frame {self.seq + 1}", found=f"frame {seq}")
        self.seq = seq
        if seq == 1 and not isinstance(fact, facts.JournalBegun):
            found = "a type that is not known" if fact is None else fact.type
            raise Corrupt(expected="the beginning of a journal at frame 1", found=found)
        match fact:
            case None | facts.ModelAttemptFinished() | facts.EvidenceWritten():
                pass
            case facts.JournalBegun():
                self._begun(fact)
            case facts.Queued():
                if fact.submission_id in self.queue:
                    raise self._corrupt(f"another send than {fact.submission_id!r}", fact)
                is_interrupt = fact.delivery == "interrupt"
                self.queue[fact.submission_id] = Waiting(
                    fact.submission_id, fact.request, is_interrupt
                )
            case facts.Retracted():
                self._left(fact.submission_id, fact)
            case facts.RunStarted():
                self._run_started(fact)
            case _:
                self._of_run(fact)

    def _begun(self, fact: facts.JournalBegun) -> None:
        if self.seq != 1 or fact.lineage != self.lineage:
            raise self._corrupt(f"the beginning of lineage {self.lineage}", fact)

    def _run_started(self, fact: facts.RunStarted) -> None:
        if self.run is not None:
            raise self._corrupt(f"the end of run {self.run.run_id!r}", fact)
        if fact.submission_id is not None:
            self._left(fact.submission_id, fact)
        self.runs += 1
        self.run = Run(fact.run_id, fact.config, self.runs, self.seq, fact.scope)
        self.messages.append(UserMessage(text=fact.input))
        self.decisions.clear()
        self.asked.clear()

    def _left(self, send: SendId, fact: Fact) -> None:
        if self.queue.pop(send, None) is None:
            raise self._corrupt(f"a send {send!r} that waits", fact)

    def _of_run(self, fact: Fact) -> None:
        run = self.run
        if run is None:
            raise self._corrupt("a run that it belongs to", fact)
        match fact:
            case facts.Steered():
                self.steered.append(fact)
            case facts.RunCancelRequested():
                self._cancelled(run, fact)
            case facts.ApprovalRequested():
                self._asked(fact)
                run.owned = True
            case facts.ApprovalResolved():
                self._answered(fact)
            case facts.ResumeStarted():
                run.resumes += 1
                run.owned = True
            case facts.RunFinished():
                self._run_finished(run, fact)
            case _:
                run.owned = True
                self._of_step(run, fact)

    def _cancelled(self, run: Run, fact: facts.RunCancelRequested) -> None:
        if fact.run_id != run.run_id:
            raise self._corrupt(f"the end of run {run.run_id!r} asked for", fact)
        run.cancel = "now" if run.cancel == "now" else fact.at

    def _asked(self, fact: facts.ApprovalRequested) -> None:
        if fact.call_key in self.asked:
            raise self._corrupt(f"one question about call {fact.call_key}", fact)
        self.asked[fact.call_key] = fact

    def _answered(self, fact: facts.ApprovalResolved) -> None:
        if fact.call_key not in self.asked or fact.call_key in self.decisions:
            raise self._corrupt("one word about a call that waits for it", fact)
        self.decisions[fact.call_key] = fact

    def _run_finished(self, run: Run, fact: facts.RunFinished) -> None:
        step = run.step
        if fact.run_id != run.run_id:
            raise self._corrupt(f"the end of run {run.run_id!r}", fact)
        if step is not None and step.message is not None and not step.finished:
            raise self._corrupt(f"the end of step {step.step_id}", fact)
        self._join_steered()
        self.last_reason = fact.reason
        self.run = None

    def _of_step(self, run: Run, fact: Fact) -> None:
        if isinstance(fact, facts.StepStarted):
            self._step_started(run, fact)
            return
        step = run.step
        if step is None:
            raise self._corrupt("a step that it belongs to", fact)
        match fact:
            case facts.ModelStepFinished():
                self._step_spoke(run, step, fact)
            case facts.ToolBatchStarted():
                self._batch_started(step, fact)
            case facts.TurnFinished():
                self._turn_finished(run, step, fact)
            case _:
                self._of_batch(run, step, fact)

    def _step_started(self, run: Run, fact: facts.StepStarted) -> None:
        step = run.step
        if step is not None and step.message is not None and not step.finished:
            raise self._corrupt(f"the end of step {step.step_id}", fact)
        if run.interrupting or (step is not None and step.is_natural_end):
            raise self._corrupt(f"the end of run {run.run_id!r}", fact)
        if step is None or step.step_id != fact.step_id:  # else the same step, begun again
            run.steps += 1
        self._join_steered()
        run.step = Step(fact.step_id, self.seq)

    def _step_spoke(self, run: Run, step: Step, fact: facts.ModelStepFinished) -> None:
        if step.message is not None or fact.step_id != step.step_id:
            raise self._corrupt(f"the first message of step {step.step_id}", fact)
        step.message, step.message_seq = fact.assistant_message, self.seq
        run.usage += fact.usage
        self.model_steps += 1
        if not step.message.calls:
            self.messages.append(step.message)

    def _batch_started(self, step: Step, fact: facts.ToolBatchStarted) -> None:
        wanted = [] if step.message is None else [each.tool_call_id for each in step.message.calls]
        planned = [each.tool_call_id for each in fact.planned_calls]
        if step.batch is not None or not wanted or planned != wanted:
            raise self._corrupt(f"one plan of the calls of step {step.step_id}", fact)
        calls = {each.tool_call_id: Call(each) for each in fact.planned_calls}
        step.batch = Batch(fact.batch_id, calls)

    def _of_batch(self, run: Run, step: Step, fact: Fact) -> None:
        batch = step.batch
        if batch is None or step.batch_finished:
            raise self._corrupt("an open batch that it belongs to", fact)
        match fact:
            case facts.ToolDispatchIntent():
                call = self._open_call(batch, fact.batch_id, fact.tool_call_id, fact)
                if call.intent is not None or call.plan.disposition != "dispatchable":
                    raise self._corrupt("one intent of a call that may be dispatched", fact)
                call.intent = fact
            case ToolNoDispatch() | ToolResult():
                call = self._open_call(batch, fact.batch_id, fact.tool_call_id, fact)
                call.end = fact
                self.tool_results += 1
                if isinstance(fact, ToolResult) and is_interrupting(fact):
                    run.interrupting = True
            case facts.ToolBatchFinished():
                self._batch_finished(step, batch, fact)
            case _:
                raise self._corrupt("something that a batch may hold", fact)

    def _open_call(
        self, batch: Batch, batch_id: CallBatchId, tool_call_id: str, fact: Fact
    ) -> Call:
        call = batch.calls.get(tool_call_id)
        if batch_id != batch.batch_id or call is None or call.end is not None:
            raise self._corrupt(f"a planned call of {batch.batch_id} without an end", fact)
        return call

    def _batch_finished(self, step: Step, batch: Batch, fact: facts.ToolBatchFinished) -> None:
        if fact.batch_id != batch.batch_id or batch.open or step.message is None:
            raise self._corrupt(f"an end of each call of {batch.batch_id}", fact)
        step.batch_finished = True
        answers = tuple(
            answer_of(call.plan, call.end) for call in batch.calls.values() if call.end is not None
        )
        self.messages += (step.message, ToolAnswers(answers=answers))

    def _turn_finished(self, run: Run, step: Step, fact: facts.TurnFinished) -> None:
        is_whole = step.is_natural_end or step.batch_finished
        if fact.step_id != step.step_id or step.finished or not is_whole:
            raise self._corrupt(f"the whole of step {step.step_id}", fact)
        step.finished = True
        run.resumes = 0

    def _join_steered(self) -> None:
        self.messages += [UserMessage(text=each.input) for each in self.steered]
        self.steered.clear()

    def _corrupt(self, expected: str, fact: Fact) -> Corrupt:
        return Corrupt(expected=f"{expected} at frame {self.seq}", found=fact.type)
