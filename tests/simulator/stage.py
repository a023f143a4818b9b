"""A stage: everything one play has, and the processes that live and die on it."""

from __future__ import annotations

import itertools
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from random import Random
from typing import Any, Literal

import pyarrow as pa
from tests.simulator.chunks import Chunks
from tests.simulator.disk import Disk
from tests.simulator.faults import Faults, Weather
from tests.simulator.harbour import Mood, harbour
from tests.simulator.landed import Landed
from tests.simulator.library import Library
from tests.simulator.loop import NOBODY, Life, SimulatedLoop
from tests.simulator.notes import Notes
from tests.simulator.objects import Bucket, SimulatedObjects
from tests.simulator.promises import CheckedTicker
from tests.simulator.records import Json, Violation, expect
from tests.simulator.stores import PlainStore
from tests.simulator.tables import SimulatedCatalog, Warehouse
from tests.simulator.told import Told
from tests.simulator.trace import Trace
from tests.simulator.truth import Truth
from tests.simulator.wire import TABLE, Region, SimulatedClient

from perdure.authority.dynamodb import DynamoStore
from perdure.authority.engine import Authority
from perdure.authority.store import Store
from perdure.kernel.commit import Commit
from perdure.kernel.documents.places import DocumentStoreRef
from perdure.kernel.errors import PerdureError
from perdure.kernel.ids import DocumentStoreId, Holder, Instant, RunId, StorageId, Token
from perdure.kernel.places import WorldRef
from perdure.lake.iceberg import Lake
from perdure.runtime.archive import ArchivedStore
from perdure.runtime.dispatch import Due
from perdure.runtime.read import Reader
from perdure.runtime.tick import Means, Ticker
from perdure.runtime.worlds import Worlds

FREEZES_SECONDS = (1.0, 5.0, 60.0, 600.0)
START_MS = 1_800_000_000_000
LEASE_MS_LEAST = 100
STORAGE = StorageId("storage")
LIBRARY = DocumentStoreRef(STORAGE, DocumentStoreId("library"))

StoreKind = Literal["plain", "dynamodb"]

Role = Callable[["Process"], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Intention:
    """A batch that a client wants to have admitted: what it sends, however often."""

    world: str
    batch: str
    contents: list[Json]


@dataclass(slots=True)
class Message:
    """A message of the queue: it shows from a moment on, and was handed out so often."""

    due: Due
    visible_from: float
    tries: int = 0


class Process:
    """One process: after each death it begins again with nothing in its memory."""

    def __init__(self, stage: Stage, name: str, role: Role) -> None:
        self.stage = stage
        self.name = name
        self.role = role
        self.lives = 0
        self.life = NOBODY
        self.skew_ms = 0
        self.has_left = False

    def start(self) -> None:
        """Begin a life."""
        stage = self.stage
        self.lives += 1
        self.life = Life(self.name, self.lives)
        stage.lives.append(self.life)
        skew = stage.faults.weather.skew_ms
        self.skew_ms = stage.chance.randint(-skew, skew) if skew else 0
        self.tokens = itertools.count(1)
        for made in ("authority", "worlds", "objects", "means", "lake", "reader"):
            self.__dict__.pop(made, None)
        stage.trace.tell(self.life.mark, "begins, its clock is {} ms off", self.skew_ms)
        stage.loop.start(self.life, self._lives())

    async def _lives(self) -> None:
        try:
            await self.role(self)
            self.has_left = True
        except Violation as violation:
            self.stage.violation = violation
        except Exception as error:  # noqa: BLE001  # whatever it is, nobody should be told that
            if self.stage.loop.is_closed():
                return  # the play has ended, and this process with it
            lines = traceback.format_exception(error)
            self.note("ends in {}", "".join(lines))
            self.stage.violation = Violation(
                "no internal error", f"{type(error).__name__}: {error}"
            )

    def now(self) -> Instant:
        """Read the clock of this process."""
        return Instant(START_MS + int(self.stage.loop.seconds * 1_000) + self.skew_ms)

    def new_token(self) -> Token:
        """Draw a token that names who drew it."""
        return Token(f"{self.life.mark}-{next(self.tokens)}")

    async def rested(self, seconds: float) -> bool:
        """Do nothing for a while, at most so long; say whether there is still a storm to act in."""
        if not self.stage.is_storm:
            return False
        await self.means.pause(self.stage.chance.random() * seconds * self.stage.faults.pace)
        return self.stage.is_storm

    def note(self, what: str, *details: Any) -> None:
        """Add a line to the trace."""
        self.stage.trace.tell(self.life.mark, what, *details)

    def met(self, what: str) -> None:
        """Count what an actor met."""
        self.stage.met[what] += 1

    def lease_ms(self) -> int:
        """Draw a lease: most are short beside what may come between."""
        most = self.stage.pick((2_000, 10_000, 60_000))
        return max(LEASE_MS_LEAST, int(most * min(1.0, self.stage.faults.pace)))

    def check(self, call: str, error: PerdureError, *worlds: str) -> None:
        """Hold an error to be one that the call can have, and not to lie about its worlds."""
        self.stage.told.error(call, error.code, *worlds)

    def ref(self, world: str) -> WorldRef:
        return WorldRef(STORAGE, world)  # type: ignore[arg-type]

    @cached_property
    def authority(self) -> Authority:
        store = ArchivedStore(self.stage.store(self.life.mark), lambda: self.objects)
        return Authority(store, self.now, self.new_token, chance=self.stage.chance.random)

    @cached_property
    def objects(self) -> SimulatedObjects:
        stage = self.stage
        return SimulatedObjects(self.life.mark, stage.loop, stage.bucket, stage.faults, stage.trace)

    @cached_property
    def means(self) -> Means:
        return Means(self.authority, self.objects, self.stage.app(), self.now, self.new_token)

    @cached_property
    def worlds(self) -> Worlds:
        return Worlds(
            self.authority,
            STORAGE,
            self.means.app.registry,
            new_token=self.new_token,
            new_run=self.stage.new_run,
            app="harbour",
        )

    @cached_property
    def lake(self) -> Lake:
        stage = self.stage
        catalog: Any = SimulatedCatalog(
            self.life.mark, stage.loop, stage.warehouse, stage.faults, stage.trace
        )
        return Lake(catalog, "simulated")

    @cached_property
    def reader(self) -> Reader:
        return Reader(self.authority, self.objects, self.lake, STORAGE, self.means.app.registry)

    def ticker(self, *, lease_ms: int, on_failure: Any) -> Ticker:
        """Make a writer whose holder is this life."""
        holder = Holder(self.life.mark)
        return CheckedTicker(
            self.stage.truth, self.means, holder, lease_ms=lease_ms, on_failure=on_failure
        )


def lost(trace: Trace, error: Exception) -> Violation:
    """Return the violation for an error of the model itself, and tell where it came from."""
    trace.tell("the model", "ends in {}", "".join(traceback.format_exception(error)))
    return Violation("the model", f"{type(error).__name__}: {error}")


@dataclass(eq=False)
class Stage:
    """What all processes of a play share."""

    seed: int
    weather: Weather
    is_torn: bool = False
    is_tight: bool = False
    kind: StoreKind = "plain"
    is_founded: bool = False
    is_over: bool = False
    closing_ticks: int = 0
    fickle: float = 0.3
    """How often a command has a component that may fail."""

    met: Counter[str] = field(default_factory=Counter)
    """What actors met, by code or by word."""

    violation: Violation | None = None
    is_storm: bool = True
    lives: list[Life] = field(default_factory=list)
    processes: list[Process] = field(default_factory=list)
    notebook: list[Intention] = field(default_factory=list)
    """What clients have sent: it outlives them, as a request on paper does."""

    answered: set[tuple[str, str]] = field(default_factory=set)
    """Batches of which somebody knows what became of them, by world."""

    entities: dict[str, list[int]] = field(default_factory=dict)
    """Ids that clients were told of, by world."""

    forks: dict[str, str] = field(default_factory=dict)
    """Which fork was asked for of which source."""

    queue: list[Message] = field(default_factory=list)
    numbers: Any = field(default_factory=lambda: itertools.count(1))
    bucket: Bucket = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.chance = Random(self.seed)
        self.loop = SimulatedLoop(self.chance)
        self.faults = Faults(self.chance, self.weather)
        self.trace = Trace(lambda: (self.loop.steps, self.loop.seconds))
        self.disk = Disk(self.chance, self.loop.time)
        self.disk.shows_within_seconds = self.weather.shows_within_seconds
        self.disk.shows_early = self.weather.shows_early
        self.chunks = Chunks(self.disk.records)
        self.notes = Notes(self.chunks)
        self.library = Library(self.chunks.decoded, LIBRARY.partition)
        self.truth = Truth(self.read_segment, self.chunks.decoded)
        self.truth.clock = self._clock
        self.told = Told(self.truth)
        self.landed = Landed(self.truth)
        self.warehouse = Warehouse(self._modelled(self.landed.appended))
        self.region = Region(self.disk)
        self.disk.watch = self._modelled(self.learn)
        self.loop.before_step = self._upset
        self.mood = Mood(self._killed, self.chance)
        self._runs = itertools.count(1)
        self._next_upset = -1
        self.faults.calm()

    def learn(self, commit: Commit) -> None:
        """Tell the model of a commit. Raises Violation."""
        self.chunks.commit(commit)
        self.notes.commit(commit)
        self.library.commit(commit)
        self.truth.commit(commit)

    def _modelled(self, learn: Callable[..., None]) -> Callable[..., None]:
        """Let what the model cannot follow be a violation, not an error of the store."""

        def told(*what: Any) -> None:
            try:
                learn(*what)
            except Exception as error:
                self.violation = lost(self.trace, error)
                raise self.violation from error

        return told

    @property
    def storage(self) -> StorageId:
        return STORAGE

    def app(self) -> Any:
        return harbour()

    def new_run(self) -> RunId:
        return RunId(f"01890000-0000-7000-8000-{next(self._runs):012d}")

    def store(self, who: str) -> Store:
        """Return the way to the disk for one life."""
        if self.kind == "dynamodb":
            client: Any = SimulatedClient(
                who, self.loop, self.region, self.faults, self.trace, self.is_torn
            )
            return DynamoStore(client, TABLE, threads=1, chance=self.chance.random)
        return PlainStore(who, self.loop, self.disk, self.faults, self.trace, self.is_torn)

    def cast(self, *named: tuple[str, Role]) -> None:
        """Put processes on the stage and let them begin."""
        for name, role in named:
            process = Process(self, name, role)
            self.processes.append(process)
            process.start()

    def pick(self, many: Sequence[Any]) -> Any:
        """Choose one."""
        return many[int(self.chance.random() * len(many))]

    def brew(self) -> None:
        """Begin the storm."""
        self.faults.weather = self.weather
        self._next_upset = self._drawn_upset()

    def calm(self) -> None:
        """End the storm: no faults, true clocks, everybody awake."""
        self.is_storm = False
        self.faults.calm()
        self.mood.fails = self.mood.kills = self.mood.processor_fails = 0.0
        self.disk.show_all()
        for process in self.processes:
            process.skew_ms = 0
        self.loop.thaw_all(self.lives)
        self.trace.tell("stage", "the storm is over")

    def _clock(self, life: str) -> int | None:
        """Read the clock of a life that lasts; none where clocks were put right meanwhile."""
        alive = (each for each in self.processes if self.is_storm and each.life.mark == life)
        return next((each.now() for each in alive), None)

    def read_segment(self, name: str) -> dict[str, list[object]]:
        """Return the columns of a segment."""
        expect(name in self.bucket, "I3", "published rows in {}, which is not there", name)
        table = pa.ipc.open_file(pa.py_buffer(self.bucket[name])).read_all()
        return table.to_pydict()

    def _drawn_upset(self) -> int:
        odds = self.weather.crash + self.weather.freeze
        if not odds:
            return -1
        return self.loop.steps + 1 + int(self.chance.expovariate(odds))

    def _upset(self, life: Life) -> None:
        """Let a process die or stand still at its next step, where the plan says so."""
        if self.loop.steps < self._next_upset or self._next_upset < 0 or life is NOBODY:
            return
        if not self.is_storm:
            self._next_upset = -1
            return
        self._next_upset = self._drawn_upset()
        weather = self.weather
        if self.chance.random() * (weather.crash + weather.freeze) < weather.crash:
            self.faults.seen["crash"] += 1
            self.trace.tell(life.mark, "DIES")
            self.loop.end(life)
        else:
            self.faults.seen["freeze"] += 1
            self.trace.tell(life.mark, "FREEZES")
            self.loop.freeze(life, self.chance.choice(FREEZES_SECONDS))

    def _killed(self, life: Life) -> None:
        """Let a command end the process that applies it."""
        self.faults.seen["killed by a command"] += 1
        self.trace.tell(life.mark, "is KILLED by a command")
        self.loop.end(life)

    def raise_the_dead(self) -> None:
        """Let processes that have died begin again after a while."""
        for process in self.processes:
            if process.life.died and process.life in self.lives:
                self.lives.remove(process.life)
                self.graves.append(process.life)
                self.loop.outside(self.chance.random() * 5.0 * self.faults.pace, process.start)

    @cached_property
    def graves(self) -> list[Life]:
        return []
