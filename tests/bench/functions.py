"""Functions apart: how long a process takes to start, and how long a warm one takes to answer."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from tests.bench.bench import Bench
from tests.bench.figures import Figure, Watch, in_turn

from perdure.api.gateway import http_event
from perdure.api.settings import local
from perdure.api.wiring import made
from perdure_emulator.declared import Function
from perdure_emulator.function_process import FunctionProcess

ROOT = Path(__file__).parents[2]
SECONDS = 60.0
NOTHING = "def handler(event, context):\n    return {}\n"


async def measure(bench: Bench) -> list[Figure]:
    """Measure starts and round trips through AWS's runtime interface client."""
    bench.say("functions")
    (bench.root / "nothing").mkdir()
    (bench.root / "nothing" / "app.py").write_text(NOTHING, encoding="utf-8")
    storage = local(bench.root / "functions", app="airspace.app:app")
    made(storage)
    environment = storage.environment()
    nothing = Function("nothing", bench.root / "nothing" / "app.py", "handler", int(SECONDS))
    files = sorted((ROOT / "functions").glob("*/app.py"))
    found = [
        Function(file.parent.name, file, "handler", int(SECONDS), environment=environment)
        for file in files
    ]
    figures = [await _started(bench, each, nothing) for each in found]
    api = next(each for each in found if each.folder == "api")
    return [*figures, await _warm(bench, api, nothing)]


async def _started(bench: Bench, function: Function, nothing: Function) -> Figure:
    async def once(which: Function) -> float:
        with Watch() as watch:
            process = await FunctionProcess.start(which)
        await process.kill()
        return watch.seconds

    measured, floor = await in_turn(
        bench.scale.imports, lambda: once(function), lambda: once(nothing)
    )
    name = f"{function.folder}, from the start of its process until it asks for an event"
    return Figure(name, "s", measured, floor, "a handler that does nothing")


async def _warm(bench: Bench, api: Function, nothing: Function) -> Figure:
    processes = [await FunctionProcess.start(each) for each in (api, nothing)]
    event = json.dumps(
        http_event(
            "GET", "/healthz", headers={}, request_id="bench", authorizer={"iam": {"userId": "a"}}
        )
    ).encode()

    async def once(process: FunctionProcess) -> float:
        with Watch() as watch:
            for _ in range(bench.scale.commits):
                await process.run(event, seconds=SECONDS)
        return watch.ms / bench.scale.commits

    reply = await processes[0].run(event, seconds=SECONDS)
    assert reply["statusCode"] == 200, reply
    measured, floor = await in_turn(
        bench.scale.rounds, *(lambda process=each: once(process) for each in processes)
    )
    await asyncio.gather(*(each.kill() for each in processes))
    return Figure("api, GET /healthz, warm", "ms", measured, floor, "a handler that does nothing")
