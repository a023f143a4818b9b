"""A scripted model: says what a script says, needs nothing outside, for demos and tests.

A script is a list of steps, or a function of the request and of how many messages the model has
said before in it. Nothing is counted in the process: whoever is killed and resumes with the same
messages gets the same step again. A step is a message, its text alone, or one of the ways to fail.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, TypeAlias

from perdure.kernel.canonical import canonical
from perdure.kernel.ids import Instant
from perdure.kernel.session.messages import AssistantMessage, ToolCall, Usage
from perdure.runtime.session.model_attempts import Attempts
from perdure.runtime.session.model_common import whole
from perdure.runtime.session.ports import (
    ModelCall,
    ModelRefused,
    ModelReply,
    ModelRequest,
    ModelUnavailable,
    Pause,
)

ATTEMPTS_MAX: Final = 3
"""How often a step that fails is tried. Source: choice."""

CONTENT_TYPE: Final = "application/json"

_PIECE: Final = re.compile(r"\S+\s*|\s+")
_BYTES_PER_TOKEN: Final = 4


@dataclass(frozen=True, slots=True)
class Fails:
    """The provider fails so many times, and then says ``then``.

    With ``after``, every failure is an answer that breaks off behind that text.
    """

    times: int
    then: AssistantMessage | str = ""
    after: str | None = None


@dataclass(frozen=True, slots=True)
class Refuses:
    """The provider takes no such request."""

    found: str = "a script that refuses"


@dataclass(frozen=True, slots=True)
class Hangs:
    """The provider says ``after``, and nothing more until the deadline."""

    after: str = ""


Step: TypeAlias = AssistantMessage | str | Fails | Refuses | Hangs
Script: TypeAlias = Sequence[Step] | Callable[[ModelRequest, int], Step | Awaitable[Step]]


def calling(*calls: tuple[str, dict[str, Any]], text: str = "") -> AssistantMessage:
    """Return a message that asks for calls, each a tool's name and its arguments."""
    return AssistantMessage(
        text=text,
        calls=tuple(
            ToolCall(tool_call_id=f"call_{index}", name=name, args=args)
            for index, (name, args) in enumerate(calls)
        ),
        stop="tool_calls",
    )


@dataclass(frozen=True, slots=True)
class ScriptedModel:
    """A model that says what ``script`` says, piece by piece."""

    script: Script
    now: Callable[[], Instant]
    pause: Pause = asyncio.sleep
    piece_ms: int = 0
    """Pause after each word of text, for somebody who looks on."""

    async def step(self, request: ModelRequest, call: ModelCall) -> ModelReply:
        """Return what the script says next. Raises ModelRefused, ModelUnavailable."""
        said = sum(isinstance(message, AssistantMessage) for message in request.messages)
        step = await self._next(request, said)
        body = _spelled(request)
        attempts = Attempts(call, self.now)
        match step:
            case Refuses(found):
                self._fail(attempts, body, 400)
                raise ModelRefused(expected="a request that the script takes", found=found)
            case Hangs(after):
                return await self._hang(attempts, body, after)
            case Fails(times, then, after):
                for _ in range(min(times, ATTEMPTS_MAX)):
                    await self._break(attempts, body, after)
                if times >= ATTEMPTS_MAX:
                    raise ModelUnavailable(
                        expected="an answer of the script", found=f"{ATTEMPTS_MAX} failures"
                    )
                return await self._say(attempts, body, then)
            case _:
                return await self._say(attempts, body, step)

    async def _next(self, request: ModelRequest, said: int) -> Step:
        if callable(self.script):
            step = self.script(request, said)
            return await step if isinstance(step, Awaitable) else step
        if said >= len(self.script):
            raise ModelRefused(
                expected=f"at most {len(self.script)} steps of this script",
                found=f"step {said + 1}",
            )
        return self.script[said]

    async def _say(
        self, attempts: Attempts, body: bytes, step: AssistantMessage | str
    ) -> ModelReply:
        message = whole(AssistantMessage(text=step) if isinstance(step, str) else step)
        if message.calls and message.stop == "end":
            message = replace(message, stop="tool_calls")
        exchange = attempts.begin(body)
        try:
            await self._tell(attempts.call, message.text)
        except asyncio.CancelledError:
            attempts.end("cancelled")
            raise
        exchange.http_status, exchange.content_type = 200, CONTENT_TYPE
        answer = canonical(asdict(message))
        exchange.take(answer)
        attempts.end("completed")
        usage = Usage(
            input_tokens=len(body) // _BYTES_PER_TOKEN,
            output_tokens=len(answer) // _BYTES_PER_TOKEN,
        )
        return ModelReply(message=message, usage=usage)

    async def _tell(self, call: ModelCall, text: str) -> None:
        for piece in _PIECE.findall(text):
            call.said(piece)
            await self.pause(self.piece_ms / 1_000)

    async def _break(self, attempts: Attempts, body: bytes, after: str | None) -> None:
        if after is None:
            self._fail(attempts, body, 503)
            return
        exchange = attempts.begin(body)
        exchange.http_status, exchange.content_type = 200, CONTENT_TYPE
        try:
            await self._tell(attempts.call, after)
        except asyncio.CancelledError:
            attempts.end("cancelled")
            raise
        exchange.take(canonical(after)[:-1])
        attempts.end("cut")

    async def _hang(self, attempts: Attempts, body: bytes, after: str) -> ModelReply:
        attempts.begin(body)
        try:
            await self._tell(attempts.call, after)
            left_ms = attempts.call.deadline - self.now()
            await self.pause(max(0, left_ms) / 1_000)
        except asyncio.CancelledError:
            attempts.end("cancelled")
            raise
        attempts.end("failed")
        raise ModelUnavailable(expected="an answer before the deadline", found="none")

    def _fail(self, attempts: Attempts, body: bytes, status: int) -> None:
        exchange = attempts.begin(body)
        exchange.http_status = status
        attempts.end("failed")


def _spelled(request: ModelRequest) -> bytes:
    return canonical(
        {
            "system": request.system,
            "messages": [[type(message).__name__, asdict(message)] for message in request.messages],
            "tools": [[tool.name, dict(tool.schema)] for tool in request.tools],
            "options": dict(request.options),
        }
    )
