"""A run of a job as its function sees it: arguments, state, and the signals of its end."""

from __future__ import annotations

import asyncio
import copy
import math
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Protocol

from perdure.kernel.documents.jobs.work import StateChange
from perdure.kernel.errors import Invalid, StaleWriter, Unavailable
from perdure.kernel.ids import Instant, JobId
from perdure.kernel.shown import shown

if TYPE_CHECKING:
    from perdure.kernel.documents.jobs.take import Taken
    from perdure.kernel.documents.jobs.value import JobRecord
    from perdure.runtime.documents.jobs.state import KeptState


class Stores(Protocol):
    """Writes a run's state, and forgets the restarts before it."""

    async def __call__(self, change: StateChange) -> JobRecord: ...


class Clock(Protocol):
    """Tells the time, and waits."""

    @property
    def now(self) -> Callable[[], Instant]: ...
    @property
    def pause(self) -> Callable[[float], Awaitable[None]]: ...


class JobRun:
    """One run of a job, in one process.

    ``aborted`` and ``stopping`` are events. After the first the outcome is wanted soon; after the
    second the function has a little time to return, and what it raises is no outcome: it runs
    again elsewhere. What it writes after its end is refused.
    """

    def __init__(
        self,
        job: JobId,
        taken: Taken,
        kept: KeptState | None,
        store: Stores,
        clock: Clock,
    ) -> None:
        self.job = job
        self.args: Any = None
        """What it was started with, in its declared shape."""

        self.key = taken.record.key
        self.trace = taken.record.trace
        self.restarts = taken.record.restarts
        """Processes that died at it since its state changed."""

        self.aborted = asyncio.Event()
        self.abort_reason: str | None = None
        self.stopping = asyncio.Event()
        self.failure: BaseException | None = None
        """Why nobody knows what its last change came to; then it is over."""

        self.over = asyncio.Event()
        self._epoch = taken.grip.epoch
        self._counted = self.restarts
        self._kept = kept
        self._store = store
        self._clock = clock
        self._line = asyncio.Lock()
        self._timer: asyncio.Task[None] | None = None
        self._timer_at = math.inf

    @property
    def state(self) -> Any:
        """The state as it is visible: a copy. None for a job without one."""
        return None if self._kept is None else self._kept.read()

    async def change(self, edit: Callable[[Any], Any], *, within_ms: float | None = None) -> None:
        """Change the state: ``edit`` changes the copy it is given, or returns another.

        Without ``within_ms`` it is durable when this returns. With it, it is visible at once and
        durable within so many milliseconds, or with whatever is stored before: a crash loses it.
        ``math.inf`` waits for the others.
        Raises: StaleWriter once the run is over; InvalidValue kinds, TooLarge; Unavailable kinds
        when nobody knows whether it was stored, and then the run is over.
        """
        _check_within(within_ms)
        # In a task of its own: a caller that goes away leaves no change half known.
        await asyncio.shield(asyncio.create_task(self._changed(edit, within_ms)))

    async def _changed(self, edit: Callable[[Any], Any], within_ms: float | None) -> None:
        async with self._line:
            self._check_open()
            kept = self._kept
            if kept is None:
                raise Invalid(expected="a job with a state", found="one without")
            given = kept.read()
            returned = edit(given)
            value = kept.spelled(given if returned is None else returned)
            if within_ms is None or self._counted:
                await self._stored(value)
            else:
                kept.hold(value)
                self._arm(within_ms)

    async def flush(self) -> None:
        """Store what is held, if anything is."""
        async with self._line:
            if self._kept is not None and self._kept.is_held and not self.over.is_set():
                await self._stored(self._kept.value)

    async def close(self, last: Callable[[StateChange | None], Awaitable[None]]) -> None:
        """End the run: after what is under way, ``last`` is given what is held. Nothing follows."""
        self.over.set()
        self._disarm()
        async with self._line:
            await last(None if self._kept is None else self._kept.held)

    def end(self, failure: BaseException | None = None) -> None:
        """Let nothing more be written by it."""
        self.failure = self.failure or failure
        self.over.set()
        self._disarm()

    def abort(self, reason: str) -> None:
        """Tell the function that somebody wants its end."""
        if self.abort_reason is None:
            self.abort_reason = reason
            self.aborted.set()

    async def _stored(self, value: Any) -> None:
        assert self._kept is not None, "a state is stored"
        change = self._kept.change_to(value)
        if change is None:
            return  # it says what it said: that is no progress, and forgets no restart
        try:
            record = await self._store(change)
        except (Unavailable, StaleWriter) as error:
            self.end(error)
            raise
        self._counted = 0
        self._kept.stored(copy.deepcopy(value), change)
        self._disarm()
        if record.abort is not None:
            self.abort(record.abort)

    def _check_open(self) -> None:
        if self.over.is_set():
            raise StaleWriter(
                expected=f"epoch {self._epoch} on job {self.job!r}", found="a run that is over"
            )

    def _arm(self, within_ms: float) -> None:
        at = self._clock.now() + within_ms
        if math.isinf(at) or at >= self._timer_at:
            return
        self._disarm()
        self._timer_at = at
        self._timer = asyncio.create_task(self._flush_at(at))

    async def _flush_at(self, at: float) -> None:
        await self._clock.pause(max(0.0, at - self._clock.now()) / 1_000)
        self._timer, self._timer_at = None, math.inf  # nobody cancels it any more
        try:
            await self.flush()
        except Exception as error:  # noqa: BLE001  # nobody waits for it: the run is over by that
            self.end(error)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._timer_at = None, math.inf


def _check_within(within_ms: float | None) -> None:
    if within_ms is None:
        return
    is_number = isinstance(within_ms, int | float) and not isinstance(within_ms, bool)
    if not is_number or math.isnan(within_ms) or within_ms < 0:
        raise Invalid(expected="within_ms of 0 or more", found=shown(within_ms))
