"""Somebody who asks a model for a step, and notes what is told meanwhile."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from perdure.kernel.ids import Instant
from perdure.kernel.session.messages import Attempt, Message
from perdure.runtime.session.ports import Model, ModelCall, ModelReply, ModelRequest, ToolSpec


@dataclass
class Listener:
    """Notes pieces of text and attempts."""

    deadline: int = 61_000
    pieces: list[str] = field(default_factory=list)
    attempts: list[Attempt] = field(default_factory=list)
    _more: asyncio.Event = field(default_factory=asyncio.Event)

    def said(self, piece: str) -> None:
        self.pieces.append(piece)
        self._more.set()

    async def told(self, pieces: int) -> None:
        """Wait until so many pieces have come."""
        while len(self.pieces) < pieces:
            self._more.clear()
            await self._more.wait()


def request_of(*messages: Message, system: str = "", tools: tuple[ToolSpec, ...] = (), **options):
    return ModelRequest(system=system, messages=messages, tools=tools, options=options)


async def asked(
    model: Model, request: ModelRequest, listener: Listener | None = None
) -> ModelReply:
    listener = listener or Listener()
    call = ModelCall(
        deadline=Instant(listener.deadline),
        said=listener.said,
        attempted=listener.attempts.append,
    )
    return await model.step(request, call)
