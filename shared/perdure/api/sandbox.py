"""A warm process: one event loop, ports opened by the first event, and an answer to every event."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any, Final, Generic, Protocol, TypeVar, runtime_checkable

from perdure.api.access import TRUSTED, principal
from perdure.api.deadlines import HTTP_MS_MAX, TimeUp, last_ms, within
from perdure.api.events import check_http, kind_of
from perdure.api.gateway import REPLY_BYTES_MAX, Answer, LambdaContext, Request
from perdure.api.invocation import CORRELATION, Invocation, cause_of
from perdure.api.problems import INTERNAL, internal, problem
from perdure.api.queue import Queued
from perdure.api.routing import Route, Router
from perdure.api.settings_access import Access, access
from perdure.api.watch import InvocationFailed, Watch
from perdure.kernel.errors import (
    MalformedEvent,
    OutcomeUnknown,
    PerdureError,
    Refused,
    StoreUnavailable,
)

P = TypeVar("P")
T = TypeVar("T")

BATCH: Final = "perdure.api.batch"
"""Imported by name, and only by who has a queue: Powertools' batches take a fifth of a second."""


@runtime_checkable
class Stops(Protocol):
    """Ports whose work can be stopped in order before its time is up."""

    def stop(self) -> None:
        """Begin nothing more, and end what is under way."""
        ...


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
        queued: Queued[P] | None = None,
        *,
        reply_bytes_max: int = REPLY_BYTES_MAX,
        trusted: bool = False,
    ) -> None:
        """Serve ``routes``, and what comes by itself.

        Schedules by ``scheduled(ports, remaining_ms)``, messages of a queue by ``queued``.
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
        self._watch = Watch(is_quiet=trusted)

    def handler(self, event: Mapping[str, Any], context: LambdaContext) -> dict[str, Any]:
        """Answer one event, from outside any event loop. Raises InvocationFailed."""
        # Not Runner.run: it sets and resets the handler of Ctrl-C at each event, for 0.2 ms.
        run = self._loop().get_loop().run_until_complete
        with self._watch.traced():
            if isinstance(event, Mapping) and "Records" in event:
                return self._batch(event, context, run)
            return run(self.answer(event, context))

    def interruptible(self, event: Mapping[str, Any], context: LambdaContext) -> dict[str, Any]:
        """Answer one event, and let Ctrl-C cancel it, so that it lets go of what it holds.

        Raises: KeyboardInterrupt, after that.
        """
        return self._loop().run(self.answer(event, context))

    def work(self, work: Callable[[P], Coroutine[Any, Any, T]]) -> T:
        """Do something with the ports that no event asks for, and let Ctrl-C cancel it.

        Raises: what the work raises; KeyboardInterrupt.
        """

        async def done() -> T:
            return await work(await self.opened())

        return self._loop().run(done())

    def _loop(self) -> asyncio.Runner:
        if self._runner is None:
            self._runner = asyncio.Runner()
            self._runner.get_loop().set_exception_handler(self._watch.stray)
        return self._runner

    async def answer(self, event: Mapping[str, Any], context: LambdaContext) -> dict[str, Any]:
        """Answer one event. Raises InvocationFailed for one that nobody waits for."""
        with self._watch.invocation(event, context.aws_request_id) as seen:
            try:
                kind = kind_of(event)
            except MalformedEvent as error:
                raise self._failed(error, seen) from None
            if kind == "http":
                return await self._http(event, context, seen)
            try:
                return await self._work(event, context, seen)
            except Exception as error:  # noqa: BLE001  # the last frame before Lambda, which prints it
                raise self._failed(error, seen) from None

    async def _work(
        self, event: Mapping[str, Any], context: LambdaContext, seen: Invocation
    ) -> dict[str, Any]:
        """Do what an event asks that nobody waits for."""
        if self._scheduled is None or "Records" in event:
            raise _not_ours()
        seen.operation = "scheduled"
        remaining_ms = context.get_remaining_time_in_millis()
        done = await self._in_time(self._due(self._scheduled, context), remaining_ms)
        if any(done.values()):
            self._watch.logger.info("scheduled", extra=done)
        return done

    async def _due(
        self, scheduled: Callable[[P, int], Awaitable[dict[str, Any]]], context: LambdaContext
    ) -> dict[str, Any]:
        return await scheduled(await self.opened(), context.get_remaining_time_in_millis())

    def _batch(
        self,
        event: Mapping[str, Any],
        context: LambdaContext,
        run: Callable[[Coroutine[Any, Any, Any]], Any],
    ) -> dict[str, Any]:
        """Handle a batch of messages, and tell which are to be handed out again."""
        with self._watch.invocation(event, context.aws_request_id) as seen:
            seen.operation = "queued"
            try:
                return self._served(event, context, run)
            except Exception as error:  # noqa: BLE001  # the last frame before Lambda, which prints it
                raise self._failed(error, seen) from None

    def _served(
        self,
        event: Mapping[str, Any],
        context: LambdaContext,
        run: Callable[[Coroutine[Any, Any, Any]], Any],
    ) -> dict[str, Any]:
        if self._queued is None:
            raise _not_ours()
        logger, queue = self._watch.logger, self._queued.queue()
        batch = importlib.import_module(BATCH).Batch(
            event, context, logger, run, queue, self._queued.hold_ms
        )

        def opening() -> Coroutine[Any, Any, P]:
            return self._in_time(self.opened(), context.get_remaining_time_in_millis())

        done: dict[str, Any] = batch.answered(opening, self._queued.serve)
        return done

    async def opened(self) -> P:
        """Return the ports, opened by the first who asks. Raises PerdureError."""
        if self._ports is None:
            async with self._opens:
                if self._ports is None:
                    self._ports = await self._open.enter_async_context(self._opening())
                    self._watch.opened(self._ports)
        return self._ports

    async def aclose(self) -> None:
        """Close what the first event opened."""
        self._ports = None
        await self._open.aclose()

    def stop(self) -> None:
        """Let what :meth:`handler` has in hand come to an orderly end soon, if it knows how.

        From any thread: that of the handler is at work.
        """
        if self._runner is not None and isinstance(self._ports, Stops):
            self._runner.get_loop().call_soon_threadsafe(self._ports.stop)

    def close(self) -> None:
        """Close what :meth:`handler` opened, and its event loop."""
        if self._runner is not None:
            self._runner.run(self.aclose())
            self._runner.close()
            self._runner = None

    async def _http(
        self, event: Mapping[str, Any], context: LambdaContext, seen: Invocation
    ) -> dict[str, Any]:
        """Answer somebody who waits, whatever happens."""
        try:
            check_http(event)
            ms = min(context.get_remaining_time_in_millis(), HTTP_MS_MAX)
            answer = await self._in_time(self._routed(event, context, seen), ms)
            reply = answer.event(bytes_max=self._reply_bytes_max)
        except TimeUp:
            reply = self._refusal(_late(seen), seen, is_inside=True)
        except _OwnFault as fault:
            reply = self._refusal(fault.error, seen, is_own=True)
        except PerdureError as error:
            reply = self._refusal(error, seen)
        except Exception as error:  # noqa: BLE001  # the last frame before the caller
            self._watch.unforeseen(error)
            seen.code = INTERNAL
            reply = internal(correlation=seen.correlation).event()
        seen.status = reply["statusCode"]
        reply["headers"][CORRELATION] = seen.correlation
        return reply

    def _refusal(
        self,
        error: PerdureError,
        seen: Invocation,
        *,
        is_own: bool = False,
        is_inside: bool = False,
    ) -> dict[str, Any]:
        seen.code, seen.cause = error.code, cause_of(error)
        # Who is in this process may know what the store said, and where it lies.
        is_inside |= self._trusted
        told = problem(error, correlation=seen.correlation, is_own=is_own, is_inside=is_inside)
        return told.event()

    async def _routed(
        self, event: Mapping[str, Any], context: LambdaContext, seen: Invocation
    ) -> Answer:
        found = self._router.find(event, context)
        seen.operation = found.route.operation
        names = found.names
        seen.world, seen.session = names.get("world"), names.get("session")
        seen.store = names.get("store")
        try:
            rules = self._rules()
        except Refused as error:
            raise _OwnFault(error) from None
        # Before anything else is looked at: what is denied tells nothing of what there is.
        asks = TRUSTED if rules is None else principal(event, rules, found.route.operation)
        seen.actor, seen.role = asks.by.actor, asks.role
        request = Request.of(event, context, asks)
        try:
            ports = await self.opened()
        except Refused as error:
            raise _OwnFault(error) from None
        seen.may_change = found.route.method != "GET"
        answer: Answer = await found.route.answer(ports, request, found.names)
        return answer

    async def _in_time(self, work: Coroutine[Any, Any, T], remaining_ms: int) -> T:
        """Return what ``work`` returns, before Lambda or API Gateway give up. Raises TimeUp."""
        # Who is in this process may wait, and has Ctrl-C.
        return await within(None if self._trusted else last_ms(remaining_ms) / 1_000, work)

    def _rules(self) -> Access | None:
        """Return who has access, None if everybody who asks is trusted. Raises InvalidValue."""
        if self._access is None and not self._trusted:
            self._access = access()
        return self._access

    def _failed(self, error: Exception, seen: Invocation) -> InvocationFailed:
        """Return what Lambda is told of a failure, and tell the log the rest of it."""
        if isinstance(error, TimeUp):
            seen.code = OutcomeUnknown.code
        elif isinstance(error, PerdureError):
            seen.code, seen.cause = error.code, cause_of(error)
        else:
            seen.code = INTERNAL
            self._watch.unforeseen(error)
        return InvocationFailed(seen.code)


class _OwnFault(Exception):
    """Settings name no storage, no application or no quota: no caller's fault."""

    def __init__(self, error: Refused) -> None:
        super().__init__(error.code)
        self.error = error


def _not_ours() -> MalformedEvent:
    return MalformedEvent(expected="an event that this function is there for", found="another")


def _late(seen: Invocation) -> PerdureError:
    """Return the error for an answer that is not there in time: a change may still happen."""
    kind = OutcomeUnknown if seen.may_change else StoreUnavailable
    error = kind(expected="an answer before the function's time is over", found="none yet")
    error.batch_id, error.send_id = seen.batch_id, seen.send_id
    error.commit_id, error.job_id = seen.commit_id, seen.job_id
    return error
