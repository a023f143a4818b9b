"""Processes: a place in which a function has as many processes as it has events at once.

As in Lambda, a process has one event at a time, is kept warm for the next, and is killed when
its time is up. Unlike there, nobody is frozen between two events, and memory is not limited.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from typing import Any, Final

import click

from perdure.api.settings import Settings
from perdure.api.wiring import api
from perdure.kernel.errors import InvalidValue
from perdure_emulator.declared import Function
from perdure_emulator.function_process import FunctionProcess
from perdure_emulator.payloads import spelled
from perdure_emulator.runtime_api import Died, FunctionFailed
from perdure_emulator.sandboxes import IN_THE_LOOP, Throttled, TimedOut, check_file

PROCESSES_MAX: Final = 8
"""Processes of a function whose template reserves no concurrency: what a laptop bears."""

BATCHES_MAX: Final = PROCESSES_MAX // 2
"""Processes of a function that messages may have at once: some are left for who asks."""

STARTS_MAX: Final = 3
"""Processes that may die before they get an event, until that is told."""

GRACE_SECONDS: Final = 3.0
"""What functions get at the end to finish what they do, before they are killed."""


class InProcesses:
    """Runs a handler file in processes of its own."""

    def __init__(self, function: Function) -> None:
        self.function = function
        reserved = function.concurrency
        self._free = asyncio.Semaphore(PROCESSES_MAX if reserved is None else reserved)
        self._idle: list[FunctionProcess] = []
        self._processes: set[FunctionProcess] = set()
        self._running: set[asyncio.Task[Any]] = set()
        self.batches = BATCHES_MAX if reserved is None else min(reserved, BATCHES_MAX)

    async def open(self) -> None:
        """Check that the handler can be there, and for `api` that it can be loaded, as elsewhere."""
        if sys.platform != "linux":
            raise InvalidValue(expected="Linux for functions apart", found=sys.platform)
        check_file(self.function)
        if self.function.folder in IN_THE_LOOP:
            try:
                self._idle.append(await self._started())
            except (FunctionFailed, Died) as error:
                expected = f"a handler that loads in {self.function.file}"
                raise InvalidValue(expected=expected, found=str(error)) from error

    async def invoke(self, event: Mapping[str, Any], *, seconds_max: float) -> dict[str, Any]:
        """Return the handler's reply.

        The event goes on if nobody waits for it any longer, up to the time of its function.
        Raises: TimedOut, Throttled, FunctionFailed, Died; InvalidJson, TooLarge for the event.
        """
        body = spelled(event)
        until = asyncio.get_running_loop().time() + seconds_max
        try:
            async with asyncio.timeout_at(until):
                await self._free.acquire()
        except TimeoutError:
            raise Throttled(self.function.name) from None
        running = asyncio.create_task(self._run(body))
        self._running.add(running)
        running.add_done_callback(self._finished)
        try:
            async with asyncio.timeout_at(until):
                reply: dict[str, Any] = await asyncio.shield(running)
                return reply
        except TimeoutError:
            raise TimedOut(self.function.name) from None

    async def close(self) -> None:
        """Wait a little for events in hand, then end all processes."""
        if self._running:
            await asyncio.wait(self._running, timeout=GRACE_SECONDS)
        await asyncio.gather(*(each.kill() for each in self._processes))
        if self._running:
            await asyncio.wait(self._running)

    async def _run(self, body: bytes) -> Any:
        for _ in range(STARTS_MAX - 1):
            try:
                return await self._run_once(body)
            except Died as died:
                if died.has_begun:
                    raise
        return await self._run_once(body)

    async def _run_once(self, body: bytes) -> Any:
        process = self._warm() or await self._started()
        seconds = float(self.function.timeout_seconds)
        try:
            return await process.run(body, seconds=seconds)
        except TimeoutError:
            name = self.function.name
            click.echo(f"perdure: {name} took longer than {seconds:.0f} s: killed", err=True)
            raise TimedOut(name) from None
        finally:
            if process.is_alive:
                self._idle.append(process)

    def _warm(self) -> FunctionProcess | None:
        """Return the process that was used last, None if all are at work or have ended."""
        while self._idle:
            process = self._idle.pop()
            if process.is_alive:
                return process
        return None

    async def _started(self) -> FunctionProcess:
        process = await FunctionProcess.start(self.function)
        self._processes = {each for each in self._processes if each.is_alive} | {process}
        return process

    def _finished(self, running: asyncio.Task[Any]) -> None:
        self._running.discard(running)
        self._free.release()
        if not running.cancelled():
            running.exception()  # whoever asked may have gone


async def check_storage(chosen: Settings) -> None:
    """Make a storage, or find it sound, before any process is started for it. Raises PerdureError."""
    async with api(chosen):
        pass
