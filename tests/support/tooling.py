"""Calls of tools, and a clock that only pauses move."""

from __future__ import annotations

import asyncio
from typing import Any

from perdure.kernel.ids import AgentRunId, CallKey, Instant, SessionId
from perdure.kernel.session.config import FrozenTool
from perdure.kernel.session.messages import ToolCall
from perdure.runtime.session.ports import CallOutcome, CallRequest, ToolSpec

KEY = CallKey("lineage/7/0")
DEADLINE = Instant(1_000_000)


def request(name: str = "move", /, deadline: int = DEADLINE, **args: Any) -> CallRequest:
    return CallRequest(
        session=SessionId("talk"),
        run=AgentRunId("run"),
        call_key=KEY,
        tool_call_id="call_0",
        name=name,
        args=args,
        deadline=Instant(deadline),
        actor="ann",
    )


def asked(name: str = "move", /, malformed: str | None = None, **args: Any) -> ToolCall:
    return ToolCall(tool_call_id="call_0", name=name, args=args, malformed=malformed)


def spec(name: str = "move", **said: Any) -> ToolSpec:
    said.setdefault("schema", {"type": "object"})
    return ToolSpec(name=name, description="", **said)


def frozen(of: ToolSpec) -> FrozenTool:
    return FrozenTool(name=of.name, schema_digest=of.schema_digest, effect=of.effect)


class Played:
    """A tool that answers from a list, and counts; what it was given as an error it raises."""

    def __init__(self, effect: str, *outcomes: Any) -> None:
        self.spec = spec(effect=effect)
        self.outcomes = list(outcomes)
        self.calls: list[CallKey] = []

    async def call(self, request: CallRequest) -> CallOutcome:
        self.calls.append(request.call_key)
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, BaseException):
            raise outcome
        return await outcome() if callable(outcome) else outcome


class AskedPlayed(Played):
    """And that can be asked."""

    def __init__(self, effect: str, *outcomes: Any, told: list[Any]) -> None:
        super().__init__(effect, *outcomes)
        self.told = told
        self.asks = 0

    async def ask(self, request: CallRequest) -> CallOutcome | None:
        self.asks += 1
        told = self.told.pop(0)
        if isinstance(told, BaseException):
            raise told
        return told


class Clock:
    """Time passes when somebody pauses and nobody else has anything to do."""

    def __init__(self, instant: int = 0) -> None:
        self.instant = instant
        self.paused: list[float] = []

    def now(self) -> Instant:
        return Instant(self.instant)

    async def pause(self, seconds: float) -> None:
        for _ in range(20):
            await asyncio.sleep(0)
        self.instant += int(seconds * 1_000)
        self.paused.append(seconds)
