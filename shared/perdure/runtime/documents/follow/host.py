"""A host: what follows stores and other things, in attempts, each of which attaches all anew."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from perdure.kernel.documents.errors import FollowFailed, StoreClosed
from perdure.kernel.documents.ops import check_ops
from perdure.kernel.errors import PerdureError
from perdure.kernel.ids import Seq
from perdure.runtime.documents.follow.batch import Batch
from perdure.runtime.documents.follow.sources import Derived, Source
from perdure.runtime.session.ports import Pause

PAUSE_SECONDS_FIRST: Final = 0.05
PAUSE_SECONDS_MAX: Final = 30.0
"""Until a host tries again that has failed: twice as long each time. Source: choice."""


class Observer(Protocol):
    """Whom that which is followed tells of it, from any turn of the loop. Nothing of it raises."""

    def change(self, ops: Sequence[Any], seq: Seq | None = None) -> None:
        """The value has changed by these operations."""
        ...

    def failed(self, error: Exception) -> None:
        """It cannot be followed any more, for now: the host attaches everything again."""
        ...

    def ended(self) -> None:
        """It will never change again."""
        ...


@dataclass(frozen=True, slots=True)
class Observation:
    """What a source begins with, and how to let go of what it follows."""

    value: Any
    detach: Callable[[], None]


Attach = Callable[[Observer], Awaitable[Observation | None]]
"""Begins to tell an observer, and returns what there is; None if there is nothing to follow."""


class Host:
    """Sources that live and fail together.

    An attempt attaches every source that was followed; the first failure of any of them ends it,
    whatever else fails with it. Sources outlive attempts: whoever watches is told what has changed
    in between, in one frame.
    """

    def __init__(self, pause: Pause, report: Callable[[PerdureError], None]) -> None:
        self.batch = Batch()
        self._pause = pause
        self.report = report
        self._followed: dict[Source, Attach] = {}
        self._derived: weakref.WeakSet[Derived] = weakref.WeakSet()
        self._attempt: Attempt | None = None
        self._is_closed = False

    @property
    def is_live(self) -> bool:
        return self._attempt is not None and self._attempt.is_live

    def follow(self, attach: Attach) -> Source:
        """Return a source that each attempt attaches anew. Call it before the host is activated."""
        assert self._attempt is None, "what is followed is known before anything is attached"
        source = Source(self.batch)
        self._followed[source] = attach
        return source

    def derive(self, compute: Callable[..., Any], *sources: Source) -> Source:
        """Return what ``compute`` makes of other sources, once in each batch that changes one.

        What it raises fails the attempt. Derived sources are computed first when all is attached.
        """
        derived = Derived(self.batch, compute, sources, self._derivation_failed)
        self._derived.add(derived)
        if self.is_live:
            with self.batch.within():
                derived.input_changed(None)
        return derived

    async def activate(self) -> None:
        """Attach every source that has not ended, or none. Raises FollowFailed, StoreClosed."""
        if self._is_closed:
            raise StoreClosed(expected="an open host", found="one that was closed")
        attempt = self._attempt = Attempt(self)
        try:
            for source, attach in list(self._followed.items()):
                await attempt.attach(source, attach)
        except FollowFailed as error:
            attempt.fail(error)
        except BaseException:
            attempt.end()
            raise
        if attempt.failure is None:
            attempt.begin(list(self._derived))
        if attempt.failure is not None:
            self._attempt = None
            raise attempt.failure

    async def run(self) -> None:
        """Stay live until it is closed: after each failure attach everything again."""
        tries = 0
        while not self._is_closed:
            try:
                if not self.is_live:
                    await self.activate()
            except FollowFailed as error:
                self.report(error)
            else:
                assert self._attempt is not None
                attempt = self._attempt
                failure = await attempt.over()
                self._attempt = None
                if failure is None:
                    return
                self.report(failure)
                tries = 0 if attempt.has_changed else tries
            await self._pause(min(PAUSE_SECONDS_MAX, PAUSE_SECONDS_FIRST * 2 ** min(tries, 20)))
            tries += 1

    def close(self) -> None:
        """Detach everything, and end every watch behind what it was told. Idempotent."""
        self._is_closed = True
        if self._attempt is not None:
            self._attempt.end()
        with self.batch.within():
            for source in list(self._followed):
                source.end()
            for derived in list(self._derived):
                derived.end()
        self._followed.clear()

    def forget(self, source: Source) -> None:
        """Attach a source that has ended no more."""
        self._followed.pop(source, None)

    def _derivation_failed(self, error: Exception) -> None:
        if self._attempt is not None:
            self._attempt.fail(error)


class Attempt:
    """One life of a host, from its first attachment to its end."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.batch = host.batch
        self.failure: FollowFailed | None = None
        self.is_live = False
        self.has_changed = False
        self._observers: list[_Observer] = []
        self._ended = asyncio.Event()

    async def attach(self, source: Source, attach: Attach) -> None:
        """Attach one source. Raises FollowFailed."""
        observer = _Observer(self, source)
        self._observers.append(observer)
        try:
            observation = await attach(observer)
        except Exception as error:
            raise _failure(error) from error
        if observation is None:
            raise FollowFailed(expected="something to follow", found="nothing")
        if self._ended.is_set():  # closed meanwhile
            observation.detach()
            return
        observer.observation = observation

    def begin(self, derived: Sequence[Derived]) -> None:
        """Take over what was attached, and what was told meanwhile, in one batch."""
        if self._ended.is_set():
            return
        self.is_live = True
        with self.batch.within():
            for observer in list(self._observers):
                if not self._ended.is_set():
                    observer.begin()
            for each in derived:
                each.input_changed(None)

    def fail(self, error: Exception) -> None:
        """End with a failure, the first one; later ones are of what has ended already."""
        if not self._ended.is_set():
            self.failure = _failure(error)
            self.end()

    def end(self) -> None:
        """Detach everything."""
        self.is_live = False
        self._ended.set()
        observers, self._observers = self._observers, []
        for observer in observers:
            observer.detach()

    def forget(self, observer: _Observer) -> None:
        """Hold one no more that has ended."""
        if observer in self._observers:
            self._observers.remove(observer)

    async def over(self) -> FollowFailed | None:
        """Wait for the end, and return why it came; None if the host was closed."""
        await self._ended.wait()
        return self.failure


class _Observer:
    """Takes what is told of one source: in the batch that runs, or in one of the next turn."""

    def __init__(self, attempt: Attempt, source: Source) -> None:
        self.observation: Observation | None = None
        self._attempt: Attempt | None = attempt
        self._source: Source | None = source
        self._early: list[Callable[[], None]] | None = []
        """What was told before all is attached."""

    def change(self, ops: Sequence[Any], seq: Seq | None = None) -> None:
        self._call(lambda: self._changed(ops, seq))

    def failed(self, error: Exception) -> None:
        self._call(lambda: self._failed(error))

    def ended(self) -> None:
        self._call(self._end)

    def begin(self) -> None:
        """Be what was attached, and apply what was told since."""
        assert self.observation is not None, "it was attached"
        try:
            if self._source is not None:
                self._source.begin(self.observation.value)
        except Exception as error:  # noqa: BLE001  # a value of somebody else's
            self._failed(error)
        early, self._early = self._early or [], None
        for call in early:
            call()

    def detach(self) -> None:
        """Hear nothing more, and hold nothing."""
        observation, self.observation = self.observation, None
        attempt, self._attempt = self._attempt, None
        self._source = None
        if observation is None:
            return
        try:
            observation.detach()
        except Exception as error:  # noqa: BLE001  # the others are to be let go of as well
            if attempt is not None:
                attempt.host.report(_failure(error))

    def _call(self, call: Callable[[], None]) -> None:
        if self._attempt is None:
            return
        if self._early is not None:
            self._early.append(call)
        else:
            self._attempt.batch.call(call)

    def _changed(self, ops: Sequence[Any], seq: Seq | None) -> None:
        if self._attempt is None or self._source is None:
            return
        try:
            check_ops(list(ops))
            self._source.change(ops, seq)
        except Exception as error:  # noqa: BLE001  # operations of somebody else's
            self._attempt.fail(error)
        else:
            self._attempt.has_changed = True

    def _failed(self, error: Exception) -> None:
        if self._attempt is not None:
            self._attempt.fail(error)

    def _end(self) -> None:
        attempt, source = self._attempt, self._source
        if attempt is None or source is None:
            return
        source.end()
        attempt.host.forget(source)
        attempt.forget(self)
        self.detach()


def _failure(error: Exception) -> FollowFailed:
    if isinstance(error, FollowFailed):
        return error
    failure = FollowFailed(expected="what is followed to go on", found=said(error))
    failure.__cause__ = error
    return failure


def said(error: Exception) -> str:
    """Name an error as a report shows it."""
    if isinstance(error, PerdureError):
        return f"{error.code}: {error}".rstrip(".")
    return f"{type(error).__name__}: {error}"
