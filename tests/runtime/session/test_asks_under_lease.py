"""A process that was overtaken while it stood still asks no tool what became of a call."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from tests.support.sessions import Clock, counting, sessions_on, within

from perdure.kernel.errors import StaleWriter
from perdure.kernel.ids import Holder
from perdure.runtime.session.journal import Journal
from perdure.runtime.session.model_scripted import calling
from perdure.runtime.session.ports import CallOutcome, CallRequest, OutcomeNotKnown, ToolSpec

pytestmark = pytest.mark.sessions

LEASE_MS = 20_000


@dataclass
class LosesAnswers:
    """A tool whose answer is lost while its process stands still, and that can be asked."""

    spec: ToolSpec
    meanwhile: Callable[[], Any]
    calls: int = 0
    asks: int = 0

    async def call(self, request: CallRequest) -> CallOutcome:
        self.calls += 1
        await self.meanwhile()
        return OutcomeNotKnown("reset", "The connection broke.")

    async def ask(self, request: CallRequest) -> CallOutcome | None:
        self.asks += 1
        return None


def test_who_was_overtaken_while_it_stood_still_asks_no_tool_afterwards() -> None:
    async def case() -> None:
        async def overtaken() -> None:
            clock.at += 10 * LEASE_MS
            await Journal.open(sessions.means, sessions.ref("s"), Holder("second"), LEASE_MS)

        clock = Clock()
        spec = counting("note", effect="idempotent", timeout_ms=900_000).spec
        tool = LosesAnswers(spec, overtaken)
        script = [calling(("note", {})), "Done."]
        sessions = sessions_on(tools=[tool], script=script, clock=clock)
        await sessions.create("pilot", session_id="s")
        await sessions.send("s", "Fly.", send_id="a")

        with pytest.raises(StaleWriter):
            await sessions.drive("s", deadline=within(sessions, 100 * LEASE_MS))

        assert (tool.calls, tool.asks) == (1, 0)

    asyncio.run(case())
