"""Somebody who asks a model for a step, and notes what is told meanwhile."""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import dataclass, field
from typing import Any

from perdure.authority import system
from perdure.kernel.ids import Instant
from perdure.kernel.session.messages import Attempt, Measured, Message
from perdure.runtime.session.model_attempts import Means
from perdure.runtime.session.ports import Model, ModelCall, ModelReply, ModelRequest, ToolSpec

ADD = ToolSpec(
    name="add",
    description="Add two numbers.",
    schema={"type": "object", "properties": {"a": {"type": "number"}}},
)


@dataclass
class Listener:
    """Notes pieces of text and attempts."""

    deadline: int = 61_000
    pieces: list[str] = field(default_factory=list)
    attempts: list[Attempt] = field(default_factory=list)
    _more: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def outcomes(self) -> list[tuple[int, str, int | None]]:
        return [(each.attempt, each.outcome, each.http_status) for each in self.attempts]

    def said(self, piece: str) -> None:
        self.pieces.append(piece)
        self._more.set()

    async def told(self, pieces: int) -> None:
        """Wait until so many pieces have come."""
        while len(self.pieces) < pieces:
            self._more.clear()
            await self._more.wait()


def request_of(
    *messages: Message, system: str = "", tools: tuple[ToolSpec, ...] = (), **options: Any
) -> ModelRequest:
    return ModelRequest(system=system, messages=messages, tools=tools, options=options)


async def asked(
    model: Model, request: ModelRequest, listener: Listener | None = None
) -> ModelReply:
    listener = listener or in_ms(60_000)
    call = ModelCall(
        deadline=Instant(listener.deadline),
        said=listener.said,
        attempted=listener.attempts.append,
    )
    return await model.step(request, call)


def in_ms(milliseconds: int) -> Listener:
    """Return a listener whose step ends that soon, by the clock of :func:`means`."""
    return Listener(deadline=system.now() + milliseconds)


@dataclass
class Pauses:
    """Notes pauses instead of making them."""

    seconds: list[float] = field(default_factory=list)

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


def means(pauses: Pauses | None = None) -> Means:
    """Return a real clock, full pauses, and nobody who makes them."""
    return Means(now=system.now, chance=lambda: 0.5, pause=pauses or Pauses())


def measured(body: bytes) -> Measured:
    return Measured(bytes=len(body), sha256=hashlib.sha256(body).hexdigest())
