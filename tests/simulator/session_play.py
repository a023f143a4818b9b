"""Plays of sessions: a seed, its actors and its weather.

    python -m tests.simulator.session_play --seeds 200          look for a violation
    python -m tests.simulator.session_play --replay 7           one play, line by line

Exit code 1 says that an invariant was broken: S1 effectful calls happen at most once, each behind
its intent; S2 a run ends once; S3 what a model is told is valid, and natural ends are not asked
again; S4 what was acknowledged is delivered once; S5 epochs rise; S6 no journal is corrupt; S7
nothing is told before it is durable, payloads included; S8 a hint leads to all work; S9 all settles.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

from tests.simulator.faults import Weather
from tests.simulator.records import Violation, expect
from tests.simulator.session_actors import ROLES, closer, founder
from tests.simulator.session_truth import SessionTruth
from tests.simulator.stage import Stage, lost

from perdure.kernel.commit import Commit

STEPS_OF_A_STORM = 6_000
STEPS_OF_A_CALM = 60_000
CAST = {"sender": 2, "canceller": 1, "approver": 1, "driver": 3}
KINDS = ("whole", "torn", "dynamodb")
WEATHER = Weather(
    commits={
        "lost before": 0.02,
        "lost after": 0.04,
        "late": 0.02,
        "twice": 0.02,
        "conflict": 0.02,
        "busy": 0.02,
    },
    loads={"no answer to a load": 0.003},
    objects={"put without an answer": 0.1, "put failed": 0.1},
    burst=0.3,
    crash=0.002,
    freeze=0.001,
    torn=0.7,
)


class SessionStage(Stage):
    """A stage whose truth is that of sessions."""

    def learn(self, commit: Commit) -> None:
        """Tell the model of a commit. Raises Violation."""
        self.chunks.commit(commit)
        self.sessions.commit(commit)

    @cached_property
    def sessions(self) -> SessionTruth:
        return SessionTruth(self.bucket)


@dataclass(slots=True)
class SessionPlayed:
    """How one seed has ended."""

    seed: int
    violation: Violation | None
    steps: int
    counts: Counter[str]
    stage: SessionStage = field(repr=False)

    @property
    def replay(self) -> str:
        """The command that plays it again."""
        return f"python -m tests.simulator.session_play --replay {self.seed}"

    def trace(self) -> str:
        """Tell the play line by line, with the command that plays it again."""
        told = f"seed {self.seed}: {self.violation or 'no violation'}"
        return "\n".join((told, f"replay: {self.replay}", *self.stage.trace.text()))


def play(seed: int) -> SessionPlayed:
    """Play one seed to its end, or to the first invariant that is broken."""
    stage = SessionStage(seed, WEATHER)
    kind = KINDS[seed % len(KINDS)]
    stage.is_torn = kind != "whole"
    stage.kind = "dynamodb" if kind == "dynamodb" else "plain"
    try:
        _played(stage)
    except Violation as violation:
        stage.violation = violation
    except Exception as error:  # noqa: BLE001  # whatever it is, it comes with its seed
        stage.violation = stage.violation or lost(stage.trace, error)
    finally:
        stage.loop.bury([*stage.lives, *stage.graves])
    counts = stage.sessions.counts + stage.met + stage.faults.seen
    return SessionPlayed(seed, stage.violation, stage.loop.steps, counts, stage)


def _played(stage: SessionStage) -> None:
    stage.cast(("founder", founder))
    stage.loop.run_while(lambda: not stage.is_founded and stage.violation is None)
    stage.brew()
    if stage.seed % 4 == 3:
        stage.faults.weather = Weather(**{**_fields(WEATHER), "skew_ms": 60_000})
    stage.faults.pace = stage.pick((0.05, 0.3, 1.0))
    stage.cast(
        *((f"{name}{number}", ROLES[name]) for name, many in CAST.items() for number in range(many))
    )
    last = stage.loop.steps + STEPS_OF_A_STORM
    stage.loop.run_while(lambda: _goes_on(stage) and stage.loop.steps < last)
    if stage.violation is not None:
        return
    stage.calm()
    stage.cast(("closer", closer))
    last = stage.loop.steps + STEPS_OF_A_CALM
    stage.loop.run_while(lambda: _goes_on(stage) and not stage.is_over and stage.loop.steps < last)
    if stage.violation is None:
        expect(stage.is_over, "S9", "{} steps after the storm something is open", STEPS_OF_A_CALM)
        stage.sessions.settled()


def _fields(weather: Weather) -> dict[str, object]:
    return {name: getattr(weather, name) for name in Weather.__slots__}


def _goes_on(stage: SessionStage) -> bool:
    stage.raise_the_dead()
    return stage.violation is None


def first_violation(seeds: Iterable[int]) -> tuple[SessionPlayed | None, Counter[str]]:
    """Play seeds until one breaks something; return it, and what all of them have met."""
    counts: Counter[str] = Counter()
    for seed in seeds:
        played = play(seed)
        counts += played.counts
        counts["plays"] += 1
        counts["steps"] += played.steps
        if played.violation is not None:
            return played, counts
    return None, counts


def main(arguments: list[str] | None = None) -> int:
    """Play seeds, or replay one."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--replay", type=int)
    chosen = parser.parse_args(arguments)
    if chosen.replay is not None:
        played = play(chosen.replay)
        sys.stdout.write(played.trace() + "\n")
        return int(played.violation is not None)
    broken, counts = first_violation(range(chosen.start, chosen.start + chosen.seeds))
    lines = [f"{counts.pop('plays')} plays, {counts.pop('steps')} steps"]
    if broken is not None:
        lines[:0] = [f"seed {broken.seed}: {broken.violation}", f"replay: {broken.replay}"]
    lines += [f"{count:8} {name}" for name, count in sorted(counts.items())]
    sys.stdout.write("\n".join(lines) + "\n")
    return int(broken is not None)


if __name__ == "__main__":
    sys.exit(main())
