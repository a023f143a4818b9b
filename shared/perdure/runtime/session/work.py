"""Work on one session: its journal, its agent, and the barriers that everything passes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from perdure.kernel.errors import Unavailable, UnknownAgent
from perdure.kernel.ids import CallKey, Holder, Instant
from perdure.kernel.session.answers import step_id
from perdure.kernel.session.facts import (
    Fact,
    Reason,
    Replayed,
    ResumeStarted,
    RunFinished,
    StepStarted,
    ToolBatchFinished,
    TurnFinished,
)
from perdure.kernel.session.fold import Batch, Fold, Run, Step
from perdure.runtime.session.agent import Agent
from perdure.runtime.session.journal import Journal, Means
from perdure.runtime.session.ports import Model
from perdure.runtime.session.toolbox import Toolbox

if TYPE_CHECKING:
    from perdure.kernel.ids import Epoch, WorldId
    from perdure.kernel.session.records import SessionRef
    from perdure.runtime.session.evidence import RunFacts

T = TypeVar("T")

MARGIN_MS: Final = 1_000
"""A lease that ends sooner is as good as over: clocks differ, and a send takes time."""

RESERVE_MS: Final = 2_000
"""Kept of a process's time for its last barrier."""


@dataclass(frozen=True, slots=True)
class Said:
    """A piece of a model's text on its way: shown at once, kept nowhere."""

    text: str


@dataclass(frozen=True, slots=True)
class Happened:
    """Facts that are durable."""

    first_seq: int
    facts: tuple[Fact, ...]


Told = Callable[[Said | Happened], None]


def unheard(_: Said | Happened) -> None:
    """Tell nobody."""


class Evidence(Protocol):
    """Keeps what a run did."""

    async def write(self, ref: SessionRef, run: RunFacts, epoch: Epoch) -> WorldId:
        """Write the facts of a run that has ended as rows of a new world, and return its id.

        A fence's epoch writes a run at most once.
        """
        ...


@dataclass(frozen=True, slots=True)
class Crew:
    """Who works on sessions in this process, and with what."""

    means: Means
    agent: Callable[[str], Agent]
    """Return an agent by name. Raises UnknownAgent."""

    model: Callable[[str], Model]
    """Open a model by its address. Raises Invalid kinds."""

    holder: Holder
    lease_ms: int
    evidence: Evidence | None = None
    """Who keeps what runs did as rows of a world, for the sessions that ask for it."""

    look_ms: int = 1_000
    """How often somebody looks, while a model or a tool works, whether the run shall end now."""


@dataclass(slots=True)
class Work:
    """One process at one session."""

    crew: Crew
    journal: Journal
    deadline: Instant
    told: Told = unheard
    mine: set[CallKey] = field(default_factory=set)
    """Calls whose intents this process wrote: of these it knows whether they have left."""

    sent: set[CallKey] = field(default_factory=set)
    is_resuming: bool = False
    """The next barrier begins with what this process found."""

    redone: list[str] = field(default_factory=list)
    indeterminate: list[str] = field(default_factory=list)
    has_done_something: bool = False
    """A turn or a step of this process is durable: what does not fit in any more has another try."""

    @property
    def fold(self) -> Fold:
        return self.journal.fold

    @property
    def run(self) -> Run:
        """The present run: only asked for while there is one."""
        run = self.fold.run
        assert run is not None, "somebody works on a run"
        return run

    @property
    def agent(self) -> Agent:
        """The agent of the present run. Raises UnknownAgent, but for a run that shall end.

        Whoever asks for the end of a run has it, also where its agent is gone: it has no tools.
        """
        name = self.run.config.agent
        try:
            return self.crew.agent(name)
        except UnknownAgent:
            if self.run.cancel is None:
                raise
            return Agent(name=name, model=self.run.config.model, tools=Toolbox())

    @property
    def step(self) -> Step:
        """The open step: only asked for while there is one."""
        step = self.run.step
        assert step is not None, "a run works on a step"
        return step

    @property
    def batch(self) -> Batch:
        """The open batch: only asked for while there is one."""
        batch = self.step.batch
        assert batch is not None, "a step works on its calls"
        return batch

    async def look(self) -> None:
        """Keep the lease alive, and fold what others have written.

        Raises: StaleWriter; Unavailable kinds when the lease is nearly over.
        """
        try:
            if self.journal.until - self.crew.means.now() < self.crew.lease_ms // 2:
                await self.journal.renew()
            await self.journal.catch_up()
        except Unavailable:
            if not self.holds():
                raise

    def holds(self) -> bool:
        """Say whether the lease lasts long enough for something to be sent under it."""
        margin_ms = min(MARGIN_MS, self.crew.lease_ms // 4)  # of a short lease, too, a part is good
        return self.journal.until - self.crew.means.now() > margin_ms

    async def until_one(self, tasks: Sequence[asyncio.Task[T]]) -> list[asyncio.Task[T]]:
        """Wait for one of some tasks, or until it is time to look; return what is done."""
        pause = asyncio.ensure_future(self.crew.means.pause(self.crew.look_ms / 1_000))
        try:
            await asyncio.wait({*tasks, pause}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            pause.cancel()
        return [task for task in tasks if task.done()]

    def left_ms(self) -> int:
        """Return for how long something may still be begun."""
        return self.deadline - RESERVE_MS - self.crew.means.now()

    async def barrier(
        self, think: Callable[[], Sequence[Fact] | None], *, is_close_out: bool = False
    ) -> bool:
        """Make durable what ``think`` says of the fold, and then tell it.

        Where somebody was first, their frames are folded and ``think`` is asked again. Return
        False if it had nothing to say. Raises what an append raises.
        """
        while True:
            facts = think()
            if facts is None:
                return False
            whole = (*self._resumed(), *facts)
            if not whole:
                return False
            if await self.journal.append(whole, is_close_out=is_close_out):
                self.is_resuming = False
                self.told(Happened(self.journal.seq - len(whole) + 1, whole))
                return True

    def _resumed(self) -> tuple[Fact, ...]:
        fold = self.fold
        if not self.is_resuming or fold.run is None:
            return ()
        replayed = Replayed(
            messages=len(fold.messages),
            model_steps=fold.model_steps,
            tool_results=fold.tool_results,
        )
        return (
            ResumeStarted(
                episode=fold.run.episode,
                resumed_from_seq=self.journal.seq,
                replayed=replayed,
                redone=tuple(self.redone),
                indeterminate=tuple(self.indeterminate),
            ),
        )

    def finished(self, reason: Reason, code: str | None = None) -> RunFinished:
        """Return the end of the present run."""
        run = self.run
        return RunFinished(run_id=run.run_id, reason=reason, usage=run.usage, code=code)

    def turn_ends(self) -> tuple[Fact, ...]:
        """Return what closes the open batch and its turn."""
        return (
            ToolBatchFinished(batch_id=self.batch.batch_id),
            TurnFinished(step_id=self.step.step_id),
        )

    def following(self) -> tuple[Fact, ...]:
        """Return what follows a finished turn: the next step, or the end of the run."""
        run = self.run
        if run.cancel is not None:
            return (self.finished("cancelled"),)
        if run.steps >= run.config.max_steps:
            return (self.finished("max_steps"),)
        if self.left_ms() <= 0:
            return ()  # the next process begins it
        return (self.next_step(),)

    def next_step(self) -> StepStarted:
        """Return the beginning of the run's next step."""
        run = self.run
        return StepStarted(step_id=step_id(run.episode, run.steps + 1), episode=run.episode)
