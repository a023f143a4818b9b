"""A warm process: one event loop, ports opened by the first event, and an answer to every event."""

from __future__ import annotations

import asyncio
import importlib
import sys
import traceback
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from http import HTTPStatus
from typing import Any, Final, Generic, TypeVar

from aws_lambda_powertools import Logger

from perdure.api.access import TRUSTED, principal
from perdure.api.gateway import REPLY_BYTES_MAX, Answer, LambdaContext, Request
from perdure.api.problems import internal, problem
from perdure.api.queue import Handed
from perdure.api.routing import Route, Router
from perdure.api.settings_access import Access, access
from perdure.kernel.errors import InvalidValue, PerdureError, Refused, shown

P = TypeVar("P")

BATCH: Final = "perdure.api.batch"
"""Imported by name, and only by who has a queue: Powertools' batches take a fifth of a second."""

SCHEDULER: Final = "aws.scheduler"

FRAMES_LOGGED: Final = 8


class Sandbox(Generic[P]):
    """What a function keeps between two events.

    In Lambda :meth:`handler` has one event at a time. The emulator and the command line await
    :meth:`answer` in a loop of their own, with many events at once.
    """

    def __init__(
        self,
        opening: Callable[[], AbstractAsyncContextManager[P]],
        routes: Sequence[Route[P]],
        scheduled: Callable[[P, int], Awaitable[dict[str, Any]]] | None = None,
        queued: Callable[[P, Handed, int], Awaitable[dict[str, Any]]] | None = None,
        *,
        reply_bytes_max: int = REPLY_BYTES_MAX,
        trusted: bool = False,
    ) -> None:
        """Serve ``routes``, and what comes by itself.

        Schedules by ``scheduled(ports, remaining_ms)``, messages of a queue by
        ``queued(ports, handed, remaining_ms)``.
        ``trusted`` is for events that a caller in this process makes: nobody need say who asks.
        """
        self._opening = opening
        self._router = Router(routes)
        self._scheduled = scheduled
        self._queued = queued
        self._reply_bytes_max = reply_bytes_max
        self._trusted = trusted
        self._access: Access | None = None
        self._ports: P | None = None
        self._open = AsyncExitStack()
        self._opens = asyncio.Lock()
        self._runner: asyncio.Runner | None = None
        # Standard output belongs to what a command prints.
        self._logger = Logger(service="perdure", stream=sys.stderr)

    def handler(self, event: Mapping[str, Any], context: LambdaContext) -> dict[str, Any]:
        """Answer one event, from outside any event loop."""
        if self._runner is None:
            self._runner = asyncio.Runner()
        # Not Runner.run: it sets and resets the handler of Ctrl-C at each event, for 0.2 ms.
        run = self._runner.get_loop().run_until_complete
        if "Records" in event:
            return self._batch(event, context, run)
        return run(self.answer(event, context))

    def interruptible(self, event: Mapping[str, Any], context: LambdaContext) -> dict[str, Any]:
        """Answer one event, and let Ctrl-C cancel it, so that it lets go of what it holds.

        Raises: KeyboardInterrupt, after that.
        """
        if self._runner is None:
            self._runner = asyncio.Runner()
        return self._runner.run(self.answer(event, context))

    async def answer(self, event: Mapping[str, Any], context: LambdaContext) -> dict[str, Any]:
        """Answer one event."""
        if "requestContext" in event:
            return await self._http(event, context)
        if self._scheduled is None or event.get("source") != SCHEDULER:
            raise InvalidValue(
                expected="an event that this function is there for", found=shown(list(event))
            )
        done = await self._scheduled(await self.opened(), context.get_remaining_time_in_millis())
        if any(done.values()):
            self._logger.info("scheduled", extra=done)
        return done

    def _batch(
        self,
        event: Mapping[str, Any],
        context: LambdaContext,
        run: Callable[[Coroutine[Any, Any, Any]], Any],
    ) -> dict[str, Any]:
        """Handle a batch of messages, and tell which are to be handed out again."""
        if self._queued is None:
            raise InvalidValue(expected="an event that this function is there for", found="Records")
        batch = importlib.import_module(BATCH).Batch(event, context, self._logger, run)
        done: dict[str, Any] = batch.answered(run(self.opened()), self._queued)
        return done

    async def opened(self) -> P:
        """Return the ports, opened by the first who asks. Raises PerdureError."""
        if self._ports is None:
            async with self._opens:
                if self._ports is None:
                    self._ports = await self._open.enter_async_context(self._opening())
        return self._ports

    async def aclose(self) -> None:
        """Close what the first event opened."""
        self._ports = None
        await self._open.aclose()

    def close(self) -> None:
        """Close what :meth:`handler` opened, and its event loop."""
        if self._runner is not None:
            self._runner.run(self.aclose())
            self._runner.close()
            self._runner = None

    async def _http(self, event: Mapping[str, Any], context: LambdaContext) -> dict[str, Any]:
        try:
            return await self._routed(event, context)
        except PerdureError as error:
            return problem(error).event()
        except Exception as error:  # noqa: BLE001  # the last frame before the caller
            return self._unforeseen(error, context).event()

    async def _routed(self, event: Mapping[str, Any], context: LambdaContext) -> dict[str, Any]:
        found = self._router.find(event, context)
        try:
            rules = self._rules()
        except Refused as error:
            return _own_fault(error)
        # Before anything else is looked at: what is denied tells nothing of what there is.
        asks = TRUSTED if rules is None else principal(event, rules, found.route.operation)
        request = Request.of(event, context, asks)
        try:
            ports = await self.opened()
        except Refused as error:
            return _own_fault(error)
        answer = await found.route.answer(ports, request, found.names)
        return answer.event(bytes_max=self._reply_bytes_max)

    def _rules(self) -> Access | None:
        """Return who has access, None if everybody who asks is trusted. Raises InvalidValue."""
        if self._access is None and not self._trusted:
            self._access = access()
        return self._access

    def _unforeseen(self, error: Exception, context: LambdaContext) -> Answer:
        # Where it happened, not its text: that may quote what a caller sent.
        frames = traceback.extract_tb(error.__traceback__)[-FRAMES_LOGGED:]
        where = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames]
        kind = f"{type(error).__module__}.{type(error).__qualname__}"
        request = context.aws_request_id
        self._logger.error("unforeseen", extra={"kind": kind, "where": where, "request": request})
        return internal()


def _own_fault(error: Refused) -> dict[str, Any]:
    """Answer for settings that name no storage, no application or no quota: no caller's fault."""
    return problem(error, status=HTTPStatus.INTERNAL_SERVER_ERROR).event()
