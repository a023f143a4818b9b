"""Resolving: what may be done again after a call that was not sent, or whose outcome is unknown.

A call that provably never left may be made again, whatever it does. One that may have happened is
asked about, if its tool can be asked; else it is made again with the same key, if its tool is pure
or knows the key; else it stays unknown. Once a call may have happened, only an answer ends that:
a repetition that was not sent says nothing of the one before it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from perdure.kernel.errors import code_of
from perdure.kernel.ids import Instant
from perdure.kernel.session.messages import Effect
from perdure.runtime.session.ports import (
    CallOutcome,
    CallRequest,
    NotSent,
    OutcomeNotKnown,
    Pause,
    ScopeDrained,
    Tool,
)

T = TypeVar("T")

PAUSES_SECONDS: Final = (0.2, 1.0, 4.0)
"""Before each repetition, of which there are at most so many."""

GRACE_SECONDS: Final = 0.2
"""How long a call that is given up may take to clear up."""

LASTING: Final = frozenset(
    {
        "access_denied",
        "redirected",
        "request_refused",
        "unauthenticated",
    }
)
"""Codes of calls that were not sent and would not be the next time either."""

OUT_OF_TIME: Final = "out_of_time"


async def resolve(
    tool: Tool,
    request: CallRequest,
    *,
    now: Callable[[], Instant],
    pause: Pause,
    effect: Effect | None = None,
) -> CallOutcome:
    """Make a call, and return what is known of it at last: by its deadline, never guessed.

    ``effect`` is what the plan says of the call. Unless it and the tool agree, the call is
    treated as effectful.
    """
    agreed = tool.spec.effect if effect in {None, tool.spec.effect} else "effectful"
    return await _Resolving(tool, request, now, pause, agreed).run()


@dataclass(slots=True)
class _Resolving:
    tool: Tool
    request: CallRequest
    now: Callable[[], Instant]
    pause: Pause
    effect: Effect
    unknown: OutcomeNotKnown | None = None
    """What became of a call that may have happened, and of which nothing was heard since."""

    async def run(self) -> CallOutcome:
        outcome = await self._call()
        for seconds in PAUSES_SECONDS:
            if not self._may_repeat(outcome) or self._left_seconds() <= seconds:
                break
            await self.pause(seconds)
            outcome = await self._again(outcome)
        return self._at_last(outcome)

    def _may_repeat(self, outcome: CallOutcome) -> bool:
        match outcome:
            case OutcomeNotKnown():
                return self.effect != "effectful"
            case NotSent(code):
                return code not in LASTING
            case _:
                return False

    async def _again(self, outcome: CallOutcome) -> CallOutcome:
        """Ask what became of the call if it may have happened; make it again if that helps."""
        ask = getattr(self.tool, "ask", None)
        if self.unknown is None or self.effect != "idempotent" or ask is None:
            return await self._call()
        told: CallOutcome | None = await self._in_time(ask(self.request), _silent)
        match told:
            case None | OutcomeNotKnown():
                return outcome
            case NotSent():
                self.unknown = None
                return await self._call()
            case _:
                return told

    async def _call(self) -> CallOutcome:
        if self._left_seconds() <= 0:
            return NotSent(OUT_OF_TIME, "There was no time left to make the call.")
        outcome = await self._in_time(self.tool.call(self.request), _broken)
        if isinstance(outcome, OutcomeNotKnown):
            self.unknown = outcome
        return outcome

    def _at_last(self, outcome: CallOutcome) -> CallOutcome:
        """Return the last outcome, in the light of a call before it that may have happened."""
        match outcome:
            case NotSent() if self.unknown is not None:
                return self.unknown
            case ScopeDrained(sent=False) if self.unknown is not None:
                return replace(outcome, sent=True)
            case _:
                return outcome

    def _left_seconds(self) -> float:
        return (self.request.deadline - self.now()) / 1_000

    async def _in_time(self, work: Coroutine[Any, Any, T], failed: Callable[[str, str], T]) -> T:
        """Return what comes of work by the deadline. Cancelled, it cancels the work and waits."""
        task, is_late = asyncio.ensure_future(work), False
        try:
            await self._first(task, self._left_seconds())
        finally:
            if not task.done():
                is_late = True
                task.cancel()
                await self._first(task, GRACE_SECONDS)
        if not task.done():
            task.add_done_callback(_heard)
            return failed("timeout", "The call did not end when it was given up.")
        if task.cancelled():
            code = "timeout" if is_late else "cancelled"
            return failed(code, "The call was given up before it ended.")
        error = task.exception()
        if error is None:
            return task.result()
        if not isinstance(error, Exception):
            raise error
        return failed(code_of(type(error)), "The tool broke off.")

    async def _first(self, task: asyncio.Task[Any], seconds: float) -> None:
        timer = asyncio.ensure_future(self.pause(seconds))
        try:
            await asyncio.wait({task, timer}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            timer.cancel()


def _broken(code: str, detail: str) -> CallOutcome:
    return OutcomeNotKnown(code, detail)


def _silent(_code: str, _detail: str) -> CallOutcome | None:
    return None


def _heard(task: asyncio.Task[Any]) -> None:
    """Take note of how abandoned work ended, so that nobody complains that no one did."""
    if not task.cancelled():
        task.exception()
