"""Attempts: requests to a model's provider, each told of however it ends, and tried again."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeVar

from perdure.kernel.ids import Instant
from perdure.kernel.session.messages import Attempt, Measured
from perdure.runtime.session.ports import ModelCall, ModelUnavailable, Pause

T = TypeVar("T")


@dataclass(slots=True)
class Exchange:
    """One request to a provider and what came back of it, until it has ended."""

    attempt: int
    request: Measured
    http_status: int | None = None
    content_type: str | None = None
    cap: int | None = None
    ended: bool = False
    received: int = 0
    _state: Any = field(default_factory=hashlib.sha256)

    def take(self, body: bytes) -> None:
        """Count bytes of the answer. They are not kept."""
        self.received += len(body)
        self._state.update(body)

    @property
    def response(self) -> Measured | None:
        """What has come so far; None while there is not even a status."""
        if self.http_status is None:
            return None
        return Measured(bytes=self.received, sha256=self._state.hexdigest())


class Again(Exception):
    """An attempt failed in a way that another may not. ``found`` goes into an error's text."""

    def __init__(self, found: str, *, after_ms: int = 0) -> None:
        super().__init__(found)
        self.found = found
        self.after_ms = after_ms
        """What the provider asked to wait at least."""


class Cut(Again):
    """The answer broke off."""


@dataclass(slots=True)
class Attempts:
    """The requests of one step. Each is told of when it has ended, and once."""

    call: ModelCall
    now: Callable[[], Instant]
    begun: int = 0
    current: Exchange | None = None

    def begin(self, body: bytes) -> Exchange:
        self.begun += 1
        self.current = Exchange(self.begun, measured(body))
        return self.current

    def end(self, outcome: str) -> None:
        exchange = self.current
        if exchange is None or exchange.ended:
            return
        exchange.ended = True
        self.call.attempted(
            Attempt(
                attempt=exchange.attempt,
                outcome=outcome,
                request=exchange.request,
                response=exchange.response,
                http_status=exchange.http_status,
                content_type=exchange.content_type,
                response_body_cap=exchange.cap,
                ts_ms=self.now(),
            )
        )

    async def bounded(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Run one attempt, at most until the deadline, and tell how it ended.

        Raises: Again, ModelRefused, ModelUnavailable.
        """
        outcome = "failed"
        try:
            async with asyncio.timeout(self.seconds_left()):
                reply = await attempt()
            outcome = "completed"
        except asyncio.CancelledError:
            outcome = "cancelled"
            raise
        except TimeoutError as error:
            if self.current is not None and self.current.http_status is not None:
                outcome = "cut"
            raise _too_late("an answer that takes longer") from error
        except Cut:
            outcome = "cut"
            raise
        finally:
            self.end(outcome)
        return reply

    def seconds_left(self) -> float:
        """Return how long until the deadline. Raises ModelUnavailable if that is over."""
        left_ms = self.call.deadline - self.now()
        if left_ms <= 0:
            raise _too_late("it has passed")
        return left_ms / 1_000


@dataclass(frozen=True, slots=True)
class Patience:
    """How often a provider is asked for one step, and with which pauses."""

    attempts_max: int = 4
    pause_ms_first: int = 500
    pause_ms_max: int = 20_000

    def pause_ms(self, attempts: int, chance: float) -> int:
        """Return a pause from nothing up to a bound that doubles each time ("full jitter")."""
        longest_ms = min(self.pause_ms_max, self.pause_ms_first << min(attempts - 1, 20))
        return int(chance * longest_ms)


PATIENT: Final = Patience()


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """What an adapter needs of the world: a clock, a way to wait, chance, and patience."""

    now: Callable[[], Instant]
    chance: Callable[[], float]
    pause: Pause = asyncio.sleep
    patience: Patience = PATIENT


async def persistent(
    means: Means, call: ModelCall, attempt: Callable[[Attempts], Awaitable[T]]
) -> T:
    """Run attempts until one answers. What a failed one has said already is said again.

    Raises: ModelRefused, and ModelUnavailable after as many as patience allows, or when the
    next could begin only after the deadline.
    """
    attempts = Attempts(call, means.now)
    tries = 0
    while True:
        tries += 1
        try:
            return await attempts.bounded(partial(attempt, attempts))
        except Again as error:
            if tries >= means.patience.attempts_max:
                raise ModelUnavailable(
                    expected="an answer of the model", found=f"{error.found}, {tries} times"
                ) from error
            pause_ms = error.after_ms + means.patience.pause_ms(tries, means.chance())
            if means.now() + pause_ms >= call.deadline:
                raise _too_late(f"{error.found}, and no time to ask again") from error
        await means.pause(pause_ms / 1_000)


def _too_late(found: str) -> ModelUnavailable:
    return ModelUnavailable(expected="an answer of the model before its deadline", found=found)


def measured(body: bytes) -> Measured:
    """Say how long a body is, and its SHA-256."""
    return Measured(bytes=len(body), sha256=hashlib.sha256(body).hexdigest())
