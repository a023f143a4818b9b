"""One process of a function: started with its environment, given events, killed when told."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from typing import Any, Final

import click

from perdure_emulator.cloudformation import ACCOUNT, REGION
from perdure_emulator.declared import Function
from perdure_emulator.runtime_api import Died, FunctionFailed, RuntimeApi, new_request_id

START_SECONDS_MAX: Final = 60.0
"""How long a handler may take to load. Lambda gives it 10 s, but not beside all of its neighbours on
the cores of one laptop."""

KEPT: Final = ("PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH")
"""What a function needs of the emulator's own environment."""

RUNTIME: Final = "AWS_Lambda_python3.13"
"""What template.yaml deploys, whichever Python runs here: the client spells replies as there."""

OUTPUT_BYTES: Final = 65_536
"""Longest line that is printed as one."""

OUTPUT_SECONDS: Final = 1.0
"""How long what a process said last is waited for."""


class FunctionProcess:
    """A process that runs a handler through AWS's own runtime interface client."""

    def __init__(
        self, function: Function, api: RuntimeApi, process: asyncio.subprocess.Process
    ) -> None:
        self._function = function
        self._api = api
        self._process = process
        self._output = asyncio.create_task(self._pass_on())
        self._end = asyncio.create_task(self._watch())

    @classmethod
    async def start(cls, function: Function) -> FunctionProcess:
        """Start a process and wait until its handler is loaded.

        Raises: FunctionFailed if it cannot be; Died.
        """
        api = RuntimeApi(function_arn(function))
        address = await api.open()
        try:
            spawned = await asyncio.create_subprocess_exec(
                sys.executable,
                *("-m", "perdure_emulator.apart", str(os.getpid())),
                f"{function.file.stem}.{function.handler}",
                cwd=function.file.parent,
                env=environment(function, address),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                # Ctrl-C is for the emulator, which lets its functions come to an end.
                start_new_session=True,
            )
        except BaseException:
            api.close()
            raise
        process = cls(function, api, spawned)
        try:
            async with asyncio.timeout(START_SECONDS_MAX):
                await api.ready()
        except TimeoutError:
            await process.kill()
            detail = f"{function.name} did not start within {START_SECONDS_MAX:.0f} s"
            raise Died(detail, has_begun=False) from None
        except BaseException:
            await process.kill()
            raise
        return process

    @property
    def id(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._api.is_alive

    async def run(self, event: bytes, *, seconds: float) -> Any:
        """Return the handler's reply. Raises FunctionFailed, Died, and TimeoutError after a kill."""
        try:
            async with asyncio.timeout(seconds):
                reply = await self._api.answer(new_request_id(), event, seconds=seconds)
        except TimeoutError:
            await self.kill()
            raise
        return replied(reply)

    async def kill(self) -> None:
        """End the process and what it started in its session, and wait until it has ended."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        await asyncio.shield(self._end)

    async def _watch(self) -> None:
        await ended(self._process.pid)
        # What it started goes with it; or that would keep its output open, and us waiting.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        code = await self._process.wait()
        how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        self._api.died(f"its process {self._process.pid} {how}")
        self._api.close()
        await asyncio.wait([self._output], timeout=OUTPUT_SECONDS)
        self._output.cancel()

    async def _pass_on(self) -> None:
        """Print what the process says, each line after the function's name."""
        assert self._process.stdout is not None
        rest = b""
        while chunk := await self._process.stdout.read(OUTPUT_BYTES):
            # The client ends the lines of a traceback as a log of CloudWatch wants it.
            *lines, rest = (rest + chunk).replace(b"\r", b"\n").split(b"\n")
            if len(rest) > OUTPUT_BYTES:
                lines, rest = [*lines, rest], b""
            self._print(lines)
        self._print([rest])

    def _print(self, lines: list[bytes]) -> None:
        for line in lines:
            if line:
                text = line.decode(errors="backslashreplace")
                click.echo(f"{self._function.name}: {text}", err=True)


async def ended(process: int) -> None:
    """Wait until a process has ended, whoever else holds its output open."""
    loop, event = asyncio.get_running_loop(), asyncio.Event()
    try:
        descriptor = os.pidfd_open(process)
    except ProcessLookupError:
        return
    loop.add_reader(descriptor, event.set)
    try:
        await event.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


def environment(function: Function, address: str) -> dict[str, str]:
    """Return all that a function's process sees: its own variables, and Lambda's.

    Source: AWS Lambda developer guide, "Defined runtime environment variables".
    """
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    region = function.environment.get("AWS_DEFAULT_REGION", REGION)
    return {
        **kept,
        "AWS_REGION": region,
        "AWS_DEFAULT_REGION": region,
        **function.environment,
        "AWS_EXECUTION_ENV": RUNTIME,
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(function.memory_mb),
        "AWS_LAMBDA_FUNCTION_NAME": function.name,
        "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
        "AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand",
        "AWS_LAMBDA_LOG_GROUP_NAME": f"/aws/lambda/{function.name}",
        "AWS_LAMBDA_LOG_STREAM_NAME": address,
        "AWS_LAMBDA_RUNTIME_API": address,
        "LAMBDA_TASK_ROOT": str(function.file.parent),
        "LANG": "C.UTF-8",
        "PYTHONPATH": os.pathsep.join(os.path.abspath(each) for each in sys.path),  # noqa: PTH100
        "TZ": ":UTC",
        "_HANDLER": f"{function.file.stem}.{function.handler}",
    }


def function_arn(function: Function) -> str:
    return f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{function.name}"


def replied(reply: bytes) -> Any:
    """Read a reply. Raises FunctionFailed."""
    try:
        return json.loads(reply)
    except ValueError as error:
        raise FunctionFailed("Runtime.MarshalError", f"a reply that is no JSON: {error}") from error
