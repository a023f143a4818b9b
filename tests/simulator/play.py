"""One play: a cast, an interleaving and faults drawn from a seed, and the invariant it broke."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.simulator.clients import admitter, canceller, destroyer, forker, reader
from tests.simulator.closing import closer
from tests.simulator.faults import Weather
from tests.simulator.harbour import Mood
from tests.simulator.keepers import lander, projector, trimmer
from tests.simulator.librarians import librarian
from tests.simulator.records import Violation, expect
from tests.simulator.scribes import scribe
from tests.simulator.stage import Process, Role, Stage, lost
from tests.simulator.tight import CRAMPED, TIGHT, small_limits
from tests.simulator.writers import EVERY_MS, dispatcher, ticker

from perdure.kernel.errors import PerdureError

STEPS_OF_A_STORM = 4_000
STEPS_OF_A_CALM = 20_000
STORES_TURN = 6
"""So many seeds on, a mix is played on another store. A seed is the play that it was, whatever mixes there are."""

WORLDS = tuple(EVERY_MS)


ROLES: Mapping[str, Role] = {
    "admitter": admitter,
    "canceller": canceller,
    "ticker": ticker,
    "dispatcher": dispatcher,
    "lander": lander,
    "projector": projector,
    "trimmer": trimmer,
    "forker": forker,
    "destroyer": destroyer,
    "reader": reader,
    "scribe": scribe,
    "librarian": librarian,
}
CAST: Mapping[str, int] = {
    "admitter": 2, "ticker": 2, "dispatcher": 1, "lander": 1, "projector": 1, "trimmer": 1,
    "forker": 1, "destroyer": 1, "reader": 1,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Mix:
    """Which actors there are, and the weather they work in."""

    weather: Weather
    cast: Mapping[str, int] = field(default_factory=lambda: CAST)
    pace: float = 0.1
    stores: tuple[str, ...] = ("dynamodb", "torn", "whole")
    """In turn: DynamoDB's, and one in memory that shows commits record by record, or whole."""

    worlds: int = len(WORLDS)
    tight: float = 0.5
    """The chance that the limits of a play are small."""

    is_cramped: bool = False
    """Records have little room: large bodies lie in chunks."""

    fickle: float = 0.3
    fails: float = 0.4
    kills: float = 0.3
    processor_fails: float = 0.02


_TABLES = {
    "append failed": 0.05,
    "append late": 0.06,
    "append answered as conflict": 0.06,
    "append without an answer": 0.06,
}
_MESSAGES = {"message lost": 0.15, "message twice": 0.25, "message late": 0.15, "twice": 0.2}
_LOSSES = {"lost before": 0.01, "lost after": 0.02, "late": 0.01, "twice": 0.01}
_BUSY = {"conflict": 0.01, "busy": 0.01}

MIXES = {
    "everyday": Mix(
        Weather(
            commits={**_LOSSES, **_BUSY},
            loads={"no answer to a load": 0.003},
            objects={"put without an answer": 0.05, "put failed": 0.03},
            tables=_TABLES, messages=_MESSAGES, house=0.02,
            burst=0.3, crash=0.001, freeze=0.0005, torn=0.5,
        )
    ),
    "storms": Mix(
        Weather(
            commits={"lost before": 0.05, "lost after": 0.1, "late": 0.08, "twice": 0.05, **_BUSY},
            loads={"no answer to a load": 0.01},
            objects={"put without an answer": 0.2, "put failed": 0.15},
            tables={kind: 3 * odd for kind, odd in _TABLES.items()}, messages=_MESSAGES, house=0.1,
            burst=0.5, crash=0.002, freeze=0.001, skew_ms=3_600_000, torn=0.8,
            shows_within_seconds=0.3, shows_early=0.04,
        ),
    ),
    "crowd": Mix(
        Weather(commits={**_LOSSES, "conflict": 0.03}, burst=0.5, torn=0.8),
        cast={"admitter": 8, "ticker": 2, "reader": 1}, kills=0.0, pace=0.03,
    ),
    "races": Mix(
        Weather(commits=_LOSSES, crash=0.0005, freeze=0.001, torn=0.9),
        cast={"admitter": 3, "canceller": 2, "ticker": 3, "forker": 2},
        worlds=1, stores=("dynamodb", "torn"), fickle=0.7, fails=0.7, kills=0.0, pace=0.01,
    ),
    "ages": Mix(
        Weather(
            commits={**_LOSSES, **_BUSY},
            objects={"put without an answer": 0.15, "put failed": 0.1},
            tables=_TABLES, messages=_MESSAGES, house=0.05,
            burst=0.3, crash=0.001, freeze=0.0005, torn=0.5,
        ),
        cast={**CAST, "trimmer": 2, "reader": 2, "destroyer": 0}, pace=60.0, tight=1.0, fickle=0.6,
    ),
    "deaths": Mix(
        Weather(commits=_LOSSES, crash=0.006, freeze=0.002, skew_ms=60_000, torn=0.5),
        fickle=0.9, fails=0.6, kills=0.6,
    ),
    "bulk": Mix(
        Weather(
            commits={**_LOSSES, **_BUSY},
            loads={"no answer to a load": 0.003},
            objects={"put without an answer": 0.05, "put failed": 0.03},
            tables=_TABLES, messages=_MESSAGES,
            burst=0.3, crash=0.001, freeze=0.0005, torn=0.8,
            shows_within_seconds=0.3, shows_early=0.04,
        ),
        cast={**CAST, "scribe": 4}, is_cramped=True,
    ),
    "library": Mix(
        Weather(
            commits={"lost before": 0.03, "lost after": 0.06, "late": 0.04, "twice": 0.03, **_BUSY},
            loads={"no answer to a load": 0.003},
            burst=0.3, crash=0.0005, freeze=0.0005, torn=0.8,
            shows_within_seconds=0.3, shows_early=0.04,
        ),
        cast={"librarian": 4}, is_cramped=True, kills=0.0,
    ),
}  # fmt: skip
"""Mixes by name."""


@dataclass(slots=True)
class Played:
    """How one seed has ended."""

    seed: int
    mix: str
    violation: Violation | None
    steps: int
    commits: int
    faults: Counter[str]
    outcomes: Counter[str]
    met: Counter[str]
    stage: Stage = field(repr=False)

    @property
    def replay(self) -> str:
        """The command that plays it again."""
        return f"python -m tests.simulator --replay {self.seed} --mix {self.mix}"

    @property
    def store(self) -> str:
        """What the authority lay on."""
        if self.stage.kind == "dynamodb":
            return "DynamoDB's, on a client that shows commits record by record"
        return "in memory, torn" if self.stage.is_torn else "in memory, whole as SQLite"

    def trace(self) -> str:
        """Tell the play line by line, with the command that plays it again."""
        return "\n".join(
            (
                f"seed {self.seed}: {self.violation or 'no violation'}",
                f"replay: {self.replay}",
                f"store: {self.store}; {'small' if self.stage.is_tight else 'usual'} limits",
                *self.stage.trace.text(),
            )
        )


def play(seed: int, mix: str = "everyday") -> Played:
    """Play one seed to its end, or to the first invariant that is broken."""
    chosen = MIXES[mix]
    stage = Stage(seed, chosen.weather)
    kind = chosen.stores[(seed + seed // STORES_TURN) % len(chosen.stores)]
    stage.is_torn = kind != "whole"
    stage.kind = "dynamodb" if kind == "dynamodb" else "plain"
    Mood.current = stage.mood
    stage.is_tight = stage.chance.random() < chosen.tight
    small = [TIGHT] * stage.is_tight + [CRAMPED] * chosen.is_cramped
    try:
        with small_limits(*small):
            _played(stage, chosen)
    except Violation as violation:
        stage.violation = violation
    except Exception as error:  # noqa: BLE001  # whatever it is, it comes with its seed
        stage.violation = stage.violation or lost(stage.trace, error)
    finally:
        Mood.current = None
        stage.loop.bury([*stage.lives, *stage.graves])
    return Played(
        seed,
        mix,
        stage.violation,
        stage.loop.steps,
        stage.truth.commits,
        stage.faults.seen,
        stage.truth.outcomes + stage.chunks.met,
        stage.met,
        stage,
    )


def _played(stage: Stage, mix: Mix) -> None:
    stage.entities = {world: [] for world in WORLDS[: mix.worlds]}
    stage.cast(("founder", _found))
    stage.loop.run_while(lambda: not stage.is_founded)
    stage.brew()
    stage.fickle = mix.fickle
    stage.mood.fails, stage.mood.kills = mix.fails, mix.kills
    stage.mood.processor_fails = mix.processor_fails
    stage.faults.pace = mix.pace
    stage.cast(
        *(
            (f"{name}{number}", ROLES[name])
            for name, count in mix.cast.items()
            for number in range(count)
        )
    )
    last = stage.loop.steps + STEPS_OF_A_STORM
    stage.loop.run_while(lambda: _goes_on(stage) and stage.loop.steps < last)
    if stage.violation is None:
        _calmed(stage)


def _calmed(stage: Stage) -> None:
    stage.calm()
    stage.cast(("tickerlast", closer))
    last = stage.loop.steps + STEPS_OF_A_CALM
    stage.loop.run_while(lambda: _goes_on(stage) and not stage.is_over and stage.loop.steps < last)
    if stage.violation is not None:
        return
    expect(stage.is_over, "I9", "{} steps after the storm something is open", STEPS_OF_A_CALM)


def _goes_on(stage: Stage) -> bool:
    stage.raise_the_dead()
    return stage.violation is None


async def _found(me: Process) -> None:
    for world in sorted(me.stage.entities):
        try:
            await me.worlds.create(f"name of {world}", world_id=world, every_ms=EVERY_MS[world])  # type: ignore[arg-type]
        except PerdureError as error:
            me.stage.loop.failure = error
    me.stage.is_founded = True
