"""The protocol of persisted jobs as a model: a starter, an aborter, runners and a forgetful store.

Like the model of sessions, this explores: every state that a cast can reach within its faults is
visited once, breadth first, and each is held to the promises below. The model knows nothing of the
product: it is the table of transitions put into moves.

A runner that is not moved is frozen or dead, for as long as the others like; a lease may run out
while its holder lives. A commit that got no answer may have happened, or not.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

RESTARTS_MAX = 2
FINISHES_MAX = 2
"""As the product's limits of five, and sooner reached."""


class Job(NamedTuple):
    """The record of a run, and what is kept of it for ever."""

    phase: str = "none"
    """none, pending, running, stopped, finishing, blocked or ended."""

    epoch: int = 0
    holder: str = ""
    """Whose claim it is, "" once it was given back; with its lease over, whoever comes may take it."""

    lease: bool = False
    restarts: int = 0
    finish_failures: int = 0
    abort: bool = False
    outcome: str = ""
    starts: int = 0
    """Times that a start found nothing and made a record."""

    effects: int = 0
    """Times that what a finish writes was committed."""

    finishes: int = 0
    """Times that a finish was begun and not given back in order."""

    states: tuple[tuple[int, int], ...] = ()
    """(epoch, number) of every state change that was committed, in order."""


class Runner(NamedTuple):
    """A process at the job."""

    name: str
    at: str = "out"
    """out, running, settled, finishing or gone."""

    epoch: int = 0
    changes: int = 0
    outcome: str = ""


class State(NamedTuple):
    """Everything at one moment."""

    job: Job
    runners: tuple[Runner, ...]
    starts: int
    """Starts that may still be asked for: the same again after the first."""

    aborts: int
    deaths: int
    expiries: int
    losses: int
    failures: int
    """Finishes that may fail."""

    takes: int
    """Times that the job may still be taken: stops and takes could follow each other for ever."""

    marked: bool = False
    """An abort was answered with "marked"."""

    crashed: int = 0
    """Claims that were lost by a death or an expiry while running."""


Move = tuple[str, State]


@dataclass(frozen=True)
class Rules:
    """What the protocol holds to; a test takes one away and sees a promise break."""

    epoch_is_checked: bool = True
    start_is_remembered: bool = True
    stop_is_no_crash: bool = True
    abort_ends_without_a_run: bool = True
    abort_ends_what_is_blocked: bool = True
    finish_deaths_are_counted: bool = True
    finish_is_one_commit: bool = True


class Broken(AssertionError):
    """A promise that a state does not keep, and how it was reached."""


@dataclass
class Explored:
    """What a walk through all states came to."""

    states: int = 0
    ended: set[str] = field(default_factory=set)
    """Outcomes that jobs ended with."""


def started(state: State, rules: Rules) -> State:
    """Start the job, or find that it was started before."""
    job = state.job
    known = job.phase != "none" and (job.phase != "ended" or rules.start_is_remembered)
    if not known:
        job = Job(phase="pending", starts=job.starts + 1, effects=job.effects)
    return state._replace(job=job, starts=state.starts - 1)


def taken(job: Job, name: str, rules: Rules) -> Job:
    """Activate the job for a runner: every row that begins with an activation."""
    lost = bool(job.holder)
    job = job._replace(epoch=job.epoch + 1, holder=name, lease=True)
    if job.phase == "finishing":
        if lost and rules.finish_deaths_are_counted:
            job = finish_failed(job, rules)
        return begun(job) if job.phase == "finishing" else job
    if job.abort and rules.abort_ends_without_a_run:
        return begun(job._replace(phase="finishing", outcome="aborted"))
    if job.phase == "running":
        restarts = job.restarts + 1
        if restarts >= RESTARTS_MAX:
            limited = job._replace(restarts=restarts, phase="finishing", outcome="restart_limit")
            return begun(limited)
        return job._replace(restarts=restarts)
    return job._replace(phase="running")


def begun(job: Job) -> Job:
    """Begin a finish."""
    return job._replace(finishes=job.finishes + 1)


def finish_failed(job: Job, rules: Rules) -> Job:
    """Count a finish that failed, or whose process is gone; nobody holds the last of them."""
    failures = job.finish_failures + 1
    job = job._replace(finish_failures=failures)
    if failures < FINISHES_MAX:
        return job
    job = job._replace(holder="", lease=False)
    if job.abort and rules.abort_ends_what_is_blocked:
        return _effect(_ended(job))
    return job._replace(phase="blocked")


def is_free(job: Job) -> bool:
    """Say whether anybody may take the job."""
    return job.phase in ("pending", "running", "stopped", "finishing") and not job.lease


def holds(job: Job, runner: Runner, rules: Rules) -> bool:
    """Say whether what a runner asks for is let in."""
    return job.epoch == runner.epoch or not rules.epoch_is_checked


def moves(state: State, rules: Rules) -> Iterator[Move]:
    """Yield every way on."""
    job = state.job
    if state.starts:
        yield "start", started(state, rules)
    if state.aborts and job.phase not in ("none", "ended"):
        if job.phase == "blocked":
            ended = job._replace(phase="ended", outcome="aborted", effects=job.effects + 1)
            yield "abort what is blocked", state._replace(job=ended, aborts=state.aborts - 1)
        else:
            marked = state._replace(job=job._replace(abort=True), aborts=state.aborts - 1)
            yield "abort", marked._replace(marked=True)
    if state.expiries and job.lease:
        lost = job.phase == "running"
        yield (
            "lease over",
            state._replace(
                job=job._replace(lease=False),
                expiries=state.expiries - 1,
                crashed=state.crashed + lost,
            ),
        )
    for place, runner in enumerate(state.runners):
        for said, after, on in _runner_moves(state, runner, rules):
            runners = (*state.runners[:place], on, *state.runners[place + 1 :])
            yield f"{runner.name} {said}", after._replace(runners=runners)


def _runner_moves(
    state: State, runner: Runner, rules: Rules
) -> Iterator[tuple[str, State, Runner]]:
    job = state.job
    if runner.at == "out":
        if is_free(job) and state.takes:
            state = state._replace(takes=state.takes - 1)
            took = taken(job, runner.name, rules)
            if took.phase in ("blocked", "ended"):
                yield "takes", state._replace(job=took), runner
                return
            at = "finishing" if took.phase == "finishing" else "running"
            on = runner._replace(at=at, epoch=took.epoch, outcome=took.outcome)
            yield "takes", state._replace(job=took), on
            if state.losses:  # it has the claim and does not know: it waits until that is over
                yield "takes, unanswered", state._replace(job=took, losses=state.losses - 1), runner
        return
    if runner.at == "gone":
        return
    if state.deaths:
        died = job.phase == "running" and job.lease and job.epoch == runner.epoch
        freed = job._replace(lease=False) if job.epoch == runner.epoch else job
        yield (
            "dies",
            state._replace(job=freed, deaths=state.deaths - 1, crashed=state.crashed + died),
            Runner(runner.name, "gone"),
        )
    for said, asked, on in _asked(state, runner, rules):
        if not holds(job, runner, rules):
            yield f"{said}, refused", state, Runner(runner.name)
            continue
        after = state._replace(job=asked(job))
        yield said, after, on
        if state.losses:
            # The same attempt is asked for again and found in the log: once done, once told.
            yield f"{said}, unanswered at first", after._replace(losses=state.losses - 1), on


Asked = tuple[str, Callable[[Job], Job], Runner]
"""What a runner asks for: its name, what it makes of the job, and where the runner then is."""


def _asked(state: State, runner: Runner, rules: Rules) -> Iterator[Asked]:
    match runner.at:
        case "running":
            yield from _while_running(runner, rules)
        case "finishing":
            yield from _while_finishing(state, runner, rules)
            yield "gives its finish back", _given_back, Runner(runner.name)
        case "settled":
            yield "ends", _ended, Runner(runner.name, "gone")


def _while_running(runner: Runner, rules: Rules) -> Iterator[Asked]:
    if runner.changes < 1:
        number = runner.changes + 1

        def change(job: Job) -> Job:
            return job._replace(states=(*job.states, (runner.epoch, number)), restarts=0)

        yield "changes the state", change, runner._replace(changes=number)

    def settle(job: Job) -> Job:
        return begun(job._replace(phase="finishing", outcome="done"))

    yield "settles", settle, runner._replace(at="finishing", outcome="done")

    def stop(job: Job) -> Job:
        phase = "stopped" if rules.stop_is_no_crash else "running"
        return job._replace(phase=phase, lease=False, holder="")

    yield "stops", stop, Runner(runner.name)


def _while_finishing(state: State, runner: Runner, rules: Rules) -> Iterator[Asked]:
    if rules.finish_is_one_commit:
        yield "finishes", lambda job: _effect(_ended(job)), Runner(runner.name, "gone")
    else:
        yield "finishes by halves", _effect, runner._replace(at="settled")
    if state.failures > state.job.finish_failures:
        yield "fails to finish", lambda job: _failed(job, rules), Runner(runner.name)


def _effect(job: Job) -> Job:
    return job._replace(effects=job.effects + 1)


def _ended(job: Job) -> Job:
    return job._replace(phase="ended", lease=False)


def _failed(job: Job, rules: Rules) -> Job:
    return finish_failed(job, rules)._replace(lease=False, holder="")


def _given_back(job: Job) -> Job:
    return job._replace(lease=False, holder="", finishes=job.finishes - 1)


def check(state: State) -> None:
    """Hold a state to every promise. Raises Broken."""
    job = state.job
    _promise(job.starts <= 1, "a job that was started runs once under its id")
    _promise(job.effects <= 1, "what a finish writes is committed once")
    _promise(job.phase != "ended" or job.effects == 1, "a job that ended was finished")
    _promise(job.finishes <= FINISHES_MAX, "a finish is begun only so often, whoever dies at it")
    _promise(job.phase != "blocked" or not job.abort, "a job that is to end does not wait blocked")
    _promise(job.restarts <= state.crashed, "only a death or a lost lease counts as a restart")
    epochs = [epoch for epoch, _ in job.states]
    _promise(epochs == sorted(epochs), "no state of an earlier claim follows one of a later")
    _promise(len(set(job.states)) == len(job.states), "each change of the state is committed once")
    _promise(
        job.outcome != "restart_limit" or state.crashed >= RESTARTS_MAX,
        "a job is given up only after as many deaths",
    )


def check_progress(state: State, rules: Rules) -> None:
    """See that a job without further faults comes to an end, or waits blocked. Raises Broken."""
    if state.job.phase in ("none", "ended", "blocked"):
        return
    runners = (Runner("fresh"),)
    calm = state._replace(
        runners=runners,
        starts=0,
        aborts=0,
        deaths=0,
        losses=0,
        failures=0,
        takes=2,
        job=state.job._replace(lease=False),
    )
    for _ in range(3):
        runner = calm.runners[0]
        wanted = {"out": "takes", "running": "settles", "finishing": "finishes"}.get(runner.at, "")
        steps = dict(moves(calm, rules))
        if f"fresh {wanted}" not in steps:
            break
        calm = steps[f"fresh {wanted}"]
    given_up = calm.job.phase == "blocked" and calm.job.finish_failures == FINISHES_MAX
    _promise(calm.job.phase == "ended" or given_up, f"a job comes to an end, not to {calm.job}")
    _promise(
        not state.job.abort or state.job.phase == "finishing" or calm.job.outcome != "done",
        "a job that was aborted before it was taken is not run",
    )


def _promise(kept: bool, promise: str) -> None:  # noqa: FBT001  # a verdict is a bool
    if not kept:
        raise Broken(promise)


def explored(rules: Rules, first: State) -> Explored:
    """Visit every state that can be reached from the first. Raises Broken with the shortest story."""
    found = Explored()
    seen: dict[State, tuple[State, str] | None] = {first: None}
    waiting = deque([first])
    while waiting:
        state = waiting.popleft()
        found.states += 1
        if state.job.phase == "ended":
            found.ended.add(state.job.outcome)
        try:
            check(state)
            check_progress(state, rules)
        except Broken as broken:
            raise Broken(f"{broken}: {' > '.join(_story(seen, state))}") from None
        for said, after in moves(state, rules):
            if after not in seen:
                seen[after] = (state, said)
                waiting.append(after)
    return found


def _story(seen: dict[State, tuple[State, str] | None], state: State) -> list[str]:
    told = []
    link = seen[state]
    while link is not None:
        before, said = link
        told.append(said)
        link = seen[before]
    return told[::-1]
