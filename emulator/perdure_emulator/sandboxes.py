"""Sandboxes: where a handler file runs, one process for all of them, and how long it may.

Lambda gives every concurrent request a sandbox of its own. Here a function that uses Arrow has
one, a thread with an event loop, so its requests wait for each other and block nobody else.
The functions `sessions` and `jobs` have both: whoever asks must not wait until some run has ended.
The function `api` never blocks: its sandbox lives in the server's event loop and has all
requests in hand at once, so that callers of one world share commits.
"""

from __future__ import annotations

import asyncio
import importlib.util
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count
from types import ModuleType
from typing import Any, Final, Protocol

from perdure.api.sandbox import Sandbox
from perdure.kernel.errors import InvalidValue
from perdure_emulator.declared import Function
from perdure_emulator.payloads import checked, spelled
from perdure_emulator.variables import apply, inside

IN_THE_LOOP: Final = frozenset({"api"})
"""Folders of functions that await everything they wait for."""

BESIDE: Final = frozenset({"sessions", "jobs"})
"""Folders of functions that await everything for who asks, and work long at what a queue brings."""

BATCHES_MAX: Final = 4
"""Batches that such a function has in hand at once, each in a thread. Source: choice."""

_REQUESTS: Final = count(1)


class TimedOut(Exception):
    """A function took longer than its template allows."""


class Throttled(Exception):
    """A function had as many events in hand as it may have; this one was not begun."""


@dataclass(frozen=True, slots=True)
class Context:
    """Lambda's context object."""

    function_name: str
    aws_request_id: str
    deadline: float

    def get_remaining_time_in_millis(self) -> int:
        return max(0, round((self.deadline - time.monotonic()) * 1_000))


class Runs(Protocol):
    """A place in which a handler file runs."""

    function: Function

    batches: int
    """Batches of messages that it takes at once."""

    async def open(self) -> None:
        """Open at the start what must be there. Raises PerdureError."""
        ...

    async def invoke(self, event: Mapping[str, Any], *, seconds_max: float) -> dict[str, Any]:
        """Return the handler's reply.

        Raises: TimedOut, and what the handler raises; InvalidJson, TooLarge for the event;
        FunctionFailed for the reply.
        """
        ...

    async def close(self) -> None: ...


class InLoop:
    """Runs a handler file in the server's own event loop."""

    batches = 1

    def __init__(self, function: Function) -> None:
        self.function = function
        with inside(function.environment):
            self._sandbox: Sandbox[Any] = loaded(function).sandbox

    async def open(self) -> None:
        with inside(self.function.environment):
            await self._sandbox.opened()

    async def invoke(self, event: Mapping[str, Any], *, seconds_max: float) -> dict[str, Any]:
        spelled(event)
        context = _context(self.function, seconds_max)
        try:
            with inside(self.function.environment):
                async with asyncio.timeout(seconds_max):
                    return checked(await self._sandbox.answer(event, context))
        except TimeoutError:
            raise TimedOut(self.function.name) from None

    async def close(self) -> None:
        await self._sandbox.aclose()


class InThread:
    """Runs a handler file in a thread, one event after another, as Lambda runs a sandbox."""

    batches = 1

    def __init__(self, function: Function) -> None:
        self.function = function
        self._thread = ThreadPoolExecutor(
            1,
            thread_name_prefix=function.folder,
            initializer=apply,
            initargs=(function.environment,),
        )
        self._module: ModuleType | None = None
        self.is_busy = False

    async def open(self) -> None:
        # By the first event: Arrow takes its time, and the storage is opened beside it anyway.
        check_file(self.function)

    async def invoke(self, event: Mapping[str, Any], *, seconds_max: float) -> dict[str, Any]:
        spelled(event)
        loop = asyncio.get_running_loop()
        self.is_busy = True
        running = loop.run_in_executor(self._thread, self._handle, event, seconds_max)
        try:
            # A thread cannot be killed: past its time it goes on, and its fence holds.
            return checked(await asyncio.wait_for(asyncio.shield(running), seconds_max))
        except TimeoutError:
            raise TimedOut(self.function.name) from None

    async def close(self) -> None:
        if self.is_busy and self._module is not None:
            sandbox: Sandbox[Any] | None = getattr(self._module, "sandbox", None)
            if sandbox is not None:
                sandbox.stop()
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._thread, self._close)
        self._thread.shutdown()

    def _handle(self, event: Mapping[str, Any], seconds_max: float) -> dict[str, Any]:
        try:
            if self._module is None:
                self._module = loaded(self.function)
            handler = getattr(self._module, self.function.handler)
            reply: dict[str, Any] = handler(event, _context(self.function, seconds_max))
            return reply
        finally:
            self.is_busy = False

    def _close(self) -> None:
        sandbox = getattr(self._module, "sandbox", None)
        if sandbox is not None:  # a handler file need not have one
            sandbox.close()


class Beside:
    """Answers who asks in the server's event loop, and has a thread for each batch of messages.

    Each is opened by its first event: agents and Arrow take their time.
    """

    batches = BATCHES_MAX

    def __init__(self, function: Function) -> None:
        self.function = function
        self._front: InLoop | None = None
        self._threads: list[InThread] = []
        self._free: list[InThread] = []

    async def open(self) -> None:
        check_file(self.function)

    async def invoke(self, event: Mapping[str, Any], *, seconds_max: float) -> dict[str, Any]:
        if "Records" not in event:
            if self._front is None:
                self._front = InLoop(self.function)
            return await self._front.invoke(event, seconds_max=seconds_max)
        if not self._free:
            self._threads.append(InThread(self.function))
            self._free.append(self._threads[-1])
        thread = self._free.pop()
        try:
            return await thread.invoke(event, seconds_max=seconds_max)
        finally:
            if not thread.is_busy:  # else it goes on, past its time
                self._free.append(thread)

    async def close(self) -> None:
        await asyncio.gather(*(each.close() for each in self._threads))
        if self._front is not None:
            await self._front.close()


def placed(function: Function) -> Runs:
    """Return the sandbox of a function."""
    if function.folder in BESIDE:
        return Beside(function)
    return InLoop(function) if function.folder in IN_THE_LOOP else InThread(function)


def loaded(function: Function) -> ModuleType:
    """Import a handler file by its path. Raises InvalidValue."""
    check_file(function)
    name = f"perdure_function_{function.folder}"
    spec = importlib.util.spec_from_file_location(name, function.file)
    assert spec is not None, "a file that ends in .py has a loader"
    assert spec.loader is not None, "a file that ends in .py has a loader"
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def check_file(function: Function) -> None:
    """Raise InvalidValue for a function without its handler file."""
    if not function.file.is_file():
        raise InvalidValue(expected=f"a handler file {function.file}", found="none")


def _context(function: Function, seconds_max: float) -> Context:
    return Context(function.name, request_id(), time.monotonic() + seconds_max)


def request_id() -> str:
    """Return an id in the form of Lambda's, new in this process: they only go to logs."""
    return f"00000000-0000-0000-0000-{next(_REQUESTS):012x}"
