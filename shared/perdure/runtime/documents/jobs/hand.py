"""A job in the hand of this process: its claim is kept alive, and its commits are sent until known."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeVar

from perdure.kernel.documents.jobs.describe import DescribeJob, JobInfo
from perdure.kernel.documents.jobs.records import JobAddress
from perdure.kernel.documents.jobs.take import Taken
from perdure.kernel.documents.jobs.work import RenewJob, StateChange, StopJob
from perdure.kernel.documents.places import DocumentStoreRef
from perdure.kernel.errors import StaleWriter, Unavailable
from perdure.kernel.ids import Instant, Token
from perdure.kernel.view import Request
from perdure.runtime.documents.reading import AtOnce, ReadsAndExecutes
from perdure.runtime.session.ports import Pause

T = TypeVar("T")

LEASE_MS: Final = 30_000
"""Lease of who works on a job, if nobody says: renewed while it works."""

LOOK_MS: Final = 1_000
"""How often somebody looks, while a job runs, whether its end is wanted."""

CLOSE_TIMEOUT_MS: Final = 5_000
"""How long a run may take to return once it is told that its process stops."""

RESERVE_MS: Final = 2_000
"""Kept of a process's time for the last commit."""

TRIES: Final = 3
"""Times that one commit of a job is asked for; each asks the store again by itself."""


@dataclass(frozen=True, slots=True)
class Interrupted:
    """A job that ends since its processes died, one after another; told once."""

    ref: DocumentStoreRef
    job: JobAddress
    restarts: int

    code: str = "job_interrupted"


def unreported(_: object) -> None:
    """Tell nobody."""


@dataclass(frozen=True, slots=True)
class Invocation:
    """A function of a job that has not returned, and how it is told of an abort."""

    task: asyncio.Task[Any]
    abort: Callable[[str], object]


class Means(Protocol):
    """What working on the jobs of a store needs of its means."""

    @property
    def authority(self) -> ReadsAndExecutes: ...
    @property
    def now(self) -> Callable[[], Instant]: ...
    @property
    def new_token(self) -> Callable[[], Token]: ...
    @property
    def pause(self) -> Pause: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCrew:
    """Who works on jobs in this process, and with what."""

    means: Means
    lease_ms: int = LEASE_MS
    look_ms: int = LOOK_MS
    close_timeout_ms: int = CLOSE_TIMEOUT_MS
    report: Callable[[Interrupted], object] = unreported
    under_way: dict[tuple[DocumentStoreRef, JobAddress], Invocation] = field(default_factory=dict)
    """Invocations that have not returned, also those that are over: none begins beside them."""

    closing: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the process is to stop: each run is stopped in order."""

    @property
    def at_once(self) -> AtOnce:
        """The authority: what another process writes of a job meanwhile is no fault of the job."""
        return AtOnce(self.means.authority, self.means.pause)

    def begun(
        self,
        ref: DocumentStoreRef,
        job: JobAddress,
        invocation: Coroutine[Any, Any, T],
        abort: Callable[[str], object] = unreported,
    ) -> asyncio.Task[T]:
        """Begin an invocation of a job. Its place is taken until it has returned."""
        task = asyncio.create_task(invocation)
        self.under_way[ref, job] = Invocation(task, abort)

        def returned(done: asyncio.Task[T]) -> None:
            under_way = self.under_way.get((ref, job))
            if under_way is not None and under_way.task is done:
                del self.under_way[ref, job]

        task.add_done_callback(returned)
        return task

    async def abort(
        self, ref: DocumentStoreRef, job: JobAddress, reason: str, *, joins: bool
    ) -> None:
        """Tell the invocation of a job in this process of an abort, and maybe wait for its end."""
        under_way = self.under_way.get((ref, job))
        if under_way is not None:
            under_way.abort(reason)
            if joins:
                await asyncio.wait({under_way.task})

    async def vacant(self, ref: DocumentStoreRef, job: JobAddress) -> bool:
        """Wait a little until no invocation of a job is under way; say whether there is none."""
        under_way = self.under_way.get((ref, job))
        if under_way is not None:
            await self.until(under_way.task, self.close_timeout_ms)
        return (ref, job) not in self.under_way

    async def until(self, task: asyncio.Future[Any], longest_ms: float, *others: Any) -> bool:
        """Wait for a task or for one of some others, no longer than so; say whether it is done."""
        pause = asyncio.ensure_future(self.means.pause(max(0.0, longest_ms) / 1_000))
        try:
            await asyncio.wait({task, pause, *others}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            pause.cancel()
        return task.done()


class Hand:
    """A job that this process has taken."""

    def __init__(self, crew: JobCrew, ref: DocumentStoreRef, job: JobAddress, taken: Taken) -> None:
        self.crew = crew
        self.ref = ref
        self.job = job
        self.grip = taken.grip
        self.record = taken.record
        self._until = taken.record.claim.until

    async def sent(self, ask: Callable[[Token], Request[T]]) -> T:
        """Ask for a commit until its answer is known, a few times. Raises what it raises."""
        request = ask(self.crew.means.new_token())
        for tries in range(1, TRIES):
            try:
                return await self.crew.at_once.execute(request)
            except Unavailable:
                await self.crew.means.pause(0.1 * tries)
        return await self.crew.at_once.execute(request)

    async def look(self) -> JobInfo | None:
        """Keep the claim alive, and tell what others want of the job.

        Raises: StaleWriter when it is another's; Unavailable kinds when the claim is nearly over.
        """
        now = self.crew.means.now()
        left_ms = self._until - now
        try:
            if left_ms < self.crew.lease_ms // 2:
                renew = RenewJob(
                    self.ref,
                    self.job,
                    self.crew.means.new_token(),
                    grip=self.grip,
                    lease_ms=self.crew.lease_ms,
                )
                record = await self.crew.at_once.execute(renew)
                self._until = record.claim.until
            info = await self.crew.at_once.execute(DescribeJob(self.ref, self.job))
        except Unavailable:
            if self._until - self.crew.means.now() < self.crew.lease_ms // 4:
                raise
            return None
        if info.epoch != self.grip.epoch:
            raise StaleWriter(
                expected=f"epoch {self.grip.epoch} on job {self.job}", found=f"epoch {info.epoch}"
            )
        return info

    async def stopped(self, change: StateChange | None = None) -> None:
        """Give the job back in order, with the state that was held."""
        await self.sent(
            lambda token: StopJob(self.ref, self.job, token, grip=self.grip, change=change)
        )

    async def watched(
        self,
        task: asyncio.Task[Any],
        until: Instant,
        tell: Callable[[JobInfo], object],
        *others: asyncio.Future[Any],
    ) -> bool:
        """Wait for a task while the claim is kept alive; say whether it was done in time.

        Any of ``others`` ends the time. Raises as :meth:`look`.
        """
        crew = self.crew
        closing = asyncio.ensure_future(crew.closing.wait())
        try:
            while not task.done():
                left_ms = until - crew.means.now()
                if left_ms <= 0 or closing.done() or any(each.done() for each in others):
                    break
                if not await crew.until(task, min(left_ms, crew.look_ms), closing, *others):
                    info = await self.look()
                    if info is not None:
                        tell(info)
        finally:
            closing.cancel()
        return task.done()
