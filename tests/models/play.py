"""One play: a cast and an interleaving drawn from a seed, and the promise it broke, if any."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

from tests.models.admission import Wanted, admit, cancel_all, cancel_one
from tests.models.engine import Stage, Steps
from tests.models.lifecycle import destroy, fork
from tests.models.outcome import verify
from tests.models.private import workflow
from tests.models.records import Entry, Head, head_of, log_of
from tests.models.rules import Rules
from tests.models.store import Store
from tests.models.ticking import tick
from tests.models.truth import Promise, Truth, Violation, WorldTruth

WORLD, CHILD, PRIVATE = "world", "child", "private"


@dataclass(frozen=True, slots=True)
class Mix:
    """How likely each kind of actor is: a mix finds some violations sooner than others."""

    torn: float = 0.5
    lossy: float = 0.4
    loss: float = 0.15
    haste: tuple[float, ...] = (0.05, 0.3)
    batches: tuple[int, int] = (1, 4)
    replay: float = 0.3
    cancel: float = 0.4
    cancel_all: float = 0.3
    ticks: tuple[int, int] = (0, 3)
    failing: float = 0.5
    goes_on: float = 0.5
    fork: float = 0.4
    destroy: float = 0.15
    private: float = 0.0


MIXES = {
    "everyday": Mix(),
    "crowd": Mix(batches=(3, 5), replay=0.0, cancel=0.1, cancel_all=0.1, fork=0.0, destroy=0.0),
    "failures": Mix(
        batches=(3, 5), ticks=(2, 4), replay=0.0, cancel=0.0, cancel_all=0.0,
        failing=1.0, goes_on=1.0, fork=0.0, destroy=0.0,
    ),
    "storms": Mix(
        torn=1.0, lossy=1.0, loss=0.4, haste=(0.03,), batches=(2, 4), replay=0.0, cancel=0.1,
        cancel_all=0.1, ticks=(2, 4), failing=0.7, destroy=0.0,
    ),
    "retries": Mix(
        torn=1.0, lossy=1.0, loss=0.4, haste=(0.03,), batches=(1, 2), replay=0.0, cancel=0.0,
        cancel_all=0.0, ticks=(3, 4), failing=1.0, fork=0.0, destroy=0.0,
    ),
    "forks": Mix(torn=1.0, batches=(2, 4), replay=0.0, cancel_all=0.1, fork=1.0, destroy=0.0),
    "private": Mix(
        lossy=1.0, loss=0.5, batches=(0, 1), ticks=(0, 1), replay=0.0, cancel=0.0, cancel_all=0.0,
        fork=0.0, destroy=0.0, private=1.0,
    ),
    "endings": Mix(torn=1.0, batches=(1, 2), replay=1.0, cancel=0.0, fork=0.0, destroy=1.0),
}  # fmt: skip
"""Mixes by name."""


@dataclass(slots=True)
class Played:
    """How one seed has ended."""

    seed: int
    rules: Rules
    mix: str
    violation: Violation | None
    store: Store = field(repr=False)

    @property
    def promise(self) -> Promise | None:
        return self.violation.promise if self.violation else None

    def trace(self) -> str:
        """Tell the play line by line, with the command that plays it again."""
        without = f" --without {','.join(self.rules.missing())}" if self.rules.missing() else ""
        store = "torn, as DynamoDB" if self.store.torn else "whole, as SQLite"
        lines = [f"  {who}: {what.format(*details)}" for who, what, details in self.store.trace]
        return "\n".join(
            (
                f"seed {self.seed}: {self.violation or 'no violation'}",
                f"replay: python -m tests.models --replay {self.seed} --mix {self.mix}{without}",
                f"store: {store}",
                *lines,
            )
        )


def play(seed: int, rules: Rules, mix: str = "everyday") -> Played:
    """Play one seed to its end, or to the first promise that is broken."""
    chance = Random(seed)
    stage = _stage(chance, rules, MIXES[mix])
    played = Played(seed, rules, mix, None, stage.store)
    try:
        _interleave(chance, stage.store, _cast(chance, stage, MIXES[mix]))
        verify(stage)
    except Violation as violation:
        played.violation = violation
    return played


def first_violation(
    rules: Rules, seeds: range, mix: str = "everyday", promise: Promise | None = None
) -> Played | None:
    """Return the first play that breaks ``promise``, or any; None if no seed does."""
    for seed in seeds:
        played = play(seed, rules, mix)
        if played.promise and promise in (None, played.promise):
            return played
    return None


def _stage(chance: Random, rules: Rules, mix: Mix) -> Stage:
    loss = mix.loss if chance.random() < mix.lossy else 0.0
    haste = chance.choice(mix.haste)
    store = Store(chance, torn=chance.random() < mix.torn, loss=loss, haste=haste)
    truth = Truth({WORLD: WorldTruth(WORLD, history={1: {}})})
    store.found({head_of(WORLD): Head(), log_of(WORLD, 1): Entry("created")})
    failures: dict[int, int] = {}
    if chance.random() < mix.failing:
        failures = {chance.randrange(1, 6): chance.choice((1, 1, 2)) for _ in range(3)}
    return Stage(store, truth, rules, failures, goes_on=chance.random() < mix.goes_on)


def _cast(chance: Random, stage: Stage, mix: Mix) -> list[Steps[None]]:
    return [*_clients(chance, stage, mix), *_writers(chance, stage, mix)]


def _clients(chance: Random, stage: Stage, mix: Mix) -> Iterator[Steps[None]]:
    for number in range(chance.randint(*mix.batches)):
        commands = tuple(
            Wanted(chance.choice((None, 1, 2)), chance.choice((0, 0, 1)), chance.randrange(2))
            for _ in range(chance.choice((1, 1, 2)))
        )
        batch = f"batch{number}"
        yield admit(stage, f"client{number}", WORLD, batch, commands, "x")
        if chance.random() < mix.replay:
            ids = chance.choice("xxy")
            yield admit(stage, f"again{number}", WORLD, batch, commands, ids)
    if chance.random() < mix.cancel:
        yield cancel_one(stage, "canceller", WORLD, chance.randrange(4))
    if chance.random() < mix.cancel_all:
        yield cancel_all(stage, "sweeper", WORLD)


def _writers(chance: Random, stage: Stage, mix: Mix) -> Iterator[Steps[None]]:
    for number in range(chance.randint(*mix.ticks)):
        yield tick(stage, f"writer{number}", WORLD)
    if chance.random() < mix.fork:
        yield fork(stage, "forker", WORLD, CHILD)
        if chance.random() < 0.5:
            yield tick(stage, "heir", CHILD, patience=60)
    if chance.random() < mix.destroy:
        yield destroy(stage, "destroyer", WORLD)
    if mix.private:
        yield workflow(stage, "workflow", PRIVATE)


def _interleave(chance: Random, store: Store, cast: list[Steps[None]]) -> None:
    """Let one actor at a time go one step, until all have left."""
    while cast:
        if store.drift():
            continue
        actor = chance.choice(cast)
        try:
            next(actor)
        except StopIteration:
            cast.remove(actor)
