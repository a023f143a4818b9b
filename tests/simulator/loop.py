"""An event loop without time, threads or sockets: which ready callback runs next is drawn by lot."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import heapq
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from inspect import iscoroutine
from random import Random
from typing import Any, TypeVar

T = TypeVar("T")


THREAD_SECONDS = 0.005
"""A thread takes at most so long to begin, and again to tell what it did."""


class Answer(dict[str, Any]):
    """The answer of a driver, with what is to be done when it arrives."""

    def __init__(self, delivered: Callable[[], None]) -> None:
        super().__init__()
        self.delivered = delivered


class Life:
    """One life of a process: from its start to its death, with all that it has in memory."""

    __slots__ = ("died", "frozen_until", "held", "name", "number", "tasks")

    def __init__(self, name: str, number: int) -> None:
        self.name = name
        self.number = number
        self.died = False
        self.frozen_until = 0.0
        self.held: list[Handle] = []
        """Callbacks that wait for the process to be thawed."""

        self.tasks: list[asyncio.Task[Any]] = []
        """Kept until the play ends: a coroutine that is collected runs its ``finally``."""

    @property
    def mark(self) -> str:
        """The name that tells this life from others of its process."""
        return f"{self.name}.{self.number}"


NOBODY = Life("wire", 0)
"""What happens between processes: a message that is under way outlives who has sent it."""

LIFE: contextvars.ContextVar[Life] = contextvars.ContextVar("life", default=NOBODY)


class Handle:
    """A callback that waits, and the life it belongs to."""

    __slots__ = ("args", "callback", "cancelled_", "context", "life", "when_")

    def __init__(
        self,
        callback: Callable[..., Any],
        args: tuple[Any, ...],
        context: contextvars.Context,
        when: float = 0.0,
    ) -> None:
        self.callback = callback
        self.args = args
        self.context = context
        self.life = context.get(LIFE, NOBODY)
        self.when_ = when
        self.cancelled_ = False

    def cancel(self) -> None:
        self.cancelled_ = True

    def cancelled(self) -> bool:
        return self.cancelled_

    def when(self) -> float:
        return self.when_


class SimulatedLoop(asyncio.AbstractEventLoop):
    """Runs callbacks one at a time; a step is one of them. Seconds pass when nobody is ready.

    ``before_step`` is told of every life that is about to act, and may end it or freeze it.
    """

    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.steps = 0
        self.seconds = 0.0
        self.before_step: Callable[[Life], None] = lambda life: None
        self.failure: BaseException | None = None
        """What escaped from a callback: a mistake of the simulator itself."""

        self._ready: list[Handle] = []
        self._timers: list[tuple[float, int, Handle]] = []
        self._count = 0
        self._is_closed = False

    def run_while(self, wanted: Callable[[], bool]) -> None:
        """Run steps for as long as ``wanted`` says so and anything is left to do."""
        running = asyncio._get_running_loop()
        asyncio._set_running_loop(self)
        try:
            while wanted() and self._step():
                if self.failure is not None:
                    raise self.failure
        finally:
            asyncio._set_running_loop(running)

    def start(self, life: Life, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Begin work that belongs to a life."""
        context = contextvars.copy_context()
        context.run(LIFE.set, life)
        return self.create_task(work, context=context)

    def outside(self, seconds: float, callback: Callable[..., Any], *args: Any) -> None:
        """Call back later on behalf of nobody: no death and no freezing hinders it."""
        context = contextvars.copy_context()
        context.run(LIFE.set, NOBODY)
        self.call_later(seconds, callback, *args, context=context)

    def end(self, life: Life) -> None:
        """Let a process die: nothing of it ever runs again."""
        life.died = True
        life.held.clear()

    def freeze(self, life: Life, seconds: float) -> None:
        """Let a process stand still between two of its steps."""
        life.frozen_until = self.seconds + seconds
        self.outside(seconds, self._thaw, life)

    def thaw_all(self, lives: list[Life]) -> None:
        """Let everybody go on at once."""
        for life in lives:
            life.frozen_until = 0.0
            self._thaw(life)

    def _thaw(self, life: Life) -> None:
        if life.frozen_until <= self.seconds and not life.died:
            self._ready.extend(life.held)
            life.held.clear()

    def _step(self) -> bool:
        ready = self._ready
        timers = self._timers
        while True:
            while timers and (not ready or timers[0][0] <= self.seconds):
                when, _, handle = heapq.heappop(timers)
                if handle.cancelled_ or handle.life.died:
                    continue
                self.seconds = max(self.seconds, when)
                ready.append(handle)
            if not ready:
                return False
            at = int(self.chance.random() * len(ready))
            handle = ready[at]
            ready[at] = ready[-1]
            ready.pop()
            life = handle.life
            if handle.cancelled_ or life.died:
                continue
            if life.frozen_until > self.seconds:
                life.held.append(handle)
                continue
            self.before_step(life)
            if life.died:
                continue
            if life.frozen_until > self.seconds:
                life.held.append(handle)
                continue
            self.steps += 1
            handle.context.run(handle.callback, *handle.args)
            return True

    # What asyncio asks of a loop.

    def time(self) -> float:
        return self.seconds

    def call_soon(
        self, callback: Any, *args: Any, context: contextvars.Context | None = None
    ) -> Any:
        handle = Handle(callback, args, contextvars.copy_context() if context is None else context)
        self._ready.append(handle)
        return handle

    call_soon_threadsafe = call_soon

    def call_later(
        self, delay: float, callback: Any, *args: Any, context: contextvars.Context | None = None
    ) -> Any:
        return self.call_at(self.seconds + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Any, *args: Any, context: contextvars.Context | None = None
    ) -> Any:
        chosen = contextvars.copy_context() if context is None else context
        handle = Handle(callback, args, chosen, when)
        self._count += 1
        heapq.heappush(self._timers, (when, self._count, handle))
        return handle

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(
        self, coro: Any, *, name: str | None = None, context: contextvars.Context | None = None
    ) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=self, name=name, context=context)
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # the dead are many here
        life = LIFE.get() if context is None else context.get(LIFE, NOBODY)
        if len(life.tasks) > 64:
            life.tasks = [each for each in life.tasks if not each.done()]
        life.tasks.append(task)
        return task

    def run_in_executor(
        self, executor: Executor | None, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """Do what a thread would do, in a step of its own; it dies with its process.

        A result that has ``delivered`` is told when whoever waits is about to have it.
        """
        future = self.create_future()

        def work() -> None:
            if future.done():
                return
            try:
                result = func(*args)
            except Exception as error:  # noqa: BLE001  # handed to who waits for the thread
                self.call_later(self._moment(), _settled, future, None, error)
            else:
                self.call_later(self._moment(), _settled, future, result, None)

        self.call_later(self._moment(), work)
        return future

    def _moment(self) -> float:
        return self.chance.random() * THREAD_SECONDS

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Say nothing: who has died retrieves no results."""

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return self._is_closed

    def bury(self, lives: list[Life]) -> None:
        """End every coroutine that is left, with no loop to run in, and close."""
        self._is_closed = True
        running = asyncio._get_running_loop()
        asyncio._set_running_loop(self)  # a ``finally`` may begin work: it must be ended here, too
        try:
            for life in lives:
                life.died = True
                self._end(life)
            self._end(NOBODY)  # to whom belongs what was begun meanwhile
        finally:
            asyncio._set_running_loop(running)
        self._ready.clear()
        self._timers.clear()

    def _end(self, life: Life) -> None:
        while life.tasks:
            task = life.tasks.pop()
            if not task.done():
                _ended(task.get_coro())


def _settled(future: asyncio.Future[Any], result: Any, error: Exception | None) -> None:
    if future.done():
        return
    if error is not None:
        future.set_exception(error)
        return
    if isinstance(result, Answer):
        result.delivered()
    future.set_result(result)


def _ended(work: Any) -> None:
    given = (
        [] if work.cr_frame is None else list(filter(iscoroutine, work.cr_frame.f_locals.values()))
    )
    while work.cr_frame is not None:  # each ``finally`` that waits once more is ended as well
        with contextlib.suppress(BaseException):  # of one that would have gone on working
            work.close()
    for each in given:  # what was to be waited for by one that has never begun
        with contextlib.suppress(BaseException):
            each.close()
