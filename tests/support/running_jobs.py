"""Jobs that run for tests: an app with one job, a clock that only tests move, processes that die."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel
from tests.support.documents import LINEAGE, REF
from tests.support.jobs import Look, state_seen

from perdure.authority.engine import PATIENT, Authority, Patience
from perdure.authority.memory import MemoryStore
from perdure.authority.store import Store
from perdure.kernel.commit import Commit
from perdure.kernel.documents.create import CreateDocumentStore
from perdure.kernel.documents.jobs.records import JobAddress
from perdure.kernel.errors import StoreUnavailable
from perdure.kernel.ids import Instant, JobId, Token
from perdure.kernel.view import Reads, View
from perdure.runtime.app import App
from perdure.runtime.documents.jobs.hand import Interrupted, JobCrew
from perdure.runtime.documents.jobs.jobs import Jobs
from perdure.runtime.documents.jobs.runner import JobDriven
from perdure.runtime.documents.store import StoreMeans

NAME = "notes.import"
JOB = JobAddress("notes", NAME, JobId("j"))
STORE = str(REF.store)
LEASE_MS = 30_000
CLOSE_MS = 5_000


class Args(BaseModel):
    path: str = "a"


class Result(BaseModel):
    count: int


class State(BaseModel):
    read: int = 0
    text: str = ""


async def counts(run: Any) -> Result:
    """A job that comes to a result at once."""
    return Result(count=len(run.args.path))


@dataclass
class MovedClock:
    """Time that passes when a test says so; who waits is woken in the order of their time."""

    at: int = 1_700_000_000_000
    _waiting: list[tuple[int, int, asyncio.Future[None]]] = field(default_factory=list)
    _numbers: itertools.count[int] = field(default_factory=itertools.count)

    def now(self) -> Instant:
        return Instant(self.at)

    async def pause(self, seconds: float) -> None:
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (self.at + int(seconds * 1_000), next(self._numbers), woken))
        await woken

    async def go(self, ms: int) -> None:
        """Let time pass, and everybody do what there is to do at each moment of it."""
        end = self.at + ms
        await settled()
        while self._waiting and self._waiting[0][0] <= end:
            at, _, woken = heapq.heappop(self._waiting)
            self.at = max(self.at, at)
            if not woken.done():
                woken.set_result(None)
                await settled()
        self.at = end
        await settled()


async def settled() -> None:
    """Let everybody go on until nobody can without time or a store."""
    for _ in range(60):
        await asyncio.sleep(0)


@dataclass
class Process:
    """One process that works on the jobs of a store."""

    jobs: Jobs
    clock: MovedClock
    interrupted: list[Interrupted]

    async def start(self, args: Any = None, **more: Any) -> Any:
        return await self.jobs.start(
            STORE, NAME, Args() if args is None else args, **{"job_id": "j", **more}
        )

    async def run(self, *, budget_ms: int = 60_000) -> JobDriven:
        """Run the job while the clock stands still."""
        return await self.jobs.run(STORE, NAME, "j", deadline=Instant(self.clock.at + budget_ms))

    def running(self, *, budget_ms: int = 60_000) -> asyncio.Task[JobDriven]:
        """Run the job beside the test."""
        return asyncio.create_task(self.run(budget_ms=budget_ms))

    async def told(self) -> Any:
        return await self.jobs.describe(STORE, NAME, "j")

    async def state(self) -> Any:
        """Return what the store has of the job's state, None without one."""
        authority = self.jobs.crew.means.authority
        return await authority.execute(Look(REF, state_seen(JOB)))

    async def outcome(self) -> Any:
        return await self.jobs.outcome(STORE, NAME, "j")


async def process(
    store: Store | None = None,
    *,
    app: App,
    clock: MovedClock | None = None,
    prefix: str = "p",
    patience: Patience = PATIENT,
) -> Process:
    """Return a process at a store, which is made if it is not there."""
    clock = MovedClock() if clock is None else clock
    numbers = itertools.count(1)

    def new_token() -> Token:
        return Token(f"{prefix}-{next(numbers)}")

    authority = Authority(
        MemoryStore() if store is None else store,
        now=clock.now,
        new_token=new_token,
        patience=patience,
    )
    await authority.execute(CreateDocumentStore(REF, LINEAGE).checked())
    means = StoreMeans(authority=authority, now=clock.now, new_token=new_token, pause=clock.pause)
    interrupted: list[Interrupted] = []
    crew = JobCrew(
        means=means,
        lease_ms=LEASE_MS,
        close_timeout_ms=CLOSE_MS,
        report=interrupted.append,
    )
    return Process(Jobs(crew, REF.storage, app), clock, interrupted)


def app_with(
    function: Callable[..., Any], *, finish: Callable[..., Any] | None = None, **more: Any
) -> App:
    """Return an app whose one job is ``function``."""
    app = App("notes")
    asked = {"args": Args, "result": Result, "state": State, **more}
    job = app.job(NAME, owner="notes", **asked)(function)
    if finish is not None:
        job.finish(finish)
    return app


class FailingStore:
    """A store that is away for some of its commits, or for all from then on."""

    def __init__(self, inner: Store) -> None:
        self._inner = inner
        self.fails = 0
        """Commits that are still to fail."""
        self.is_away = False

    async def load(self, reads: Reads) -> View:
        self._check()
        return await self._inner.load(reads)

    async def commit(self, commit: Commit) -> None:
        self._check()
        if self.fails:
            self.fails -= 1
            raise StoreUnavailable(expected="a store that answers", found="none")
        await self._inner.commit(commit)

    async def close(self) -> None:
        await self._inner.close()

    def _check(self) -> None:
        if self.is_away:
            raise StoreUnavailable(expected="a store that answers", found="none")
