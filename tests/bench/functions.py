"""Functions apart: how long a process takes to start, to answer its first event, and one when warm."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from tests.bench.bench import Bench
from tests.bench.figures import Figure, Sample, Watch, in_turn

import perdure
from airspace.app import app
from airspace.components import Position
from perdure.api.gateway import http_event
from perdure.api.settings import local
from perdure.api.wiring import made
from perdure_emulator.declared import Function
from perdure_emulator.function_process import FunctionProcess

ROOT = Path(__file__).parents[2]
SECONDS = 60.0
NOTHING = "def handler(event, context):\n    return {'statusCode': 200}\n"
WORLD = "harbour"
FLOOR = "a handler that does nothing"

QUEUE = {
    "PERDURE_TICKS": "http://127.0.0.1:9/000000000000/ticks",
    "AWS_ACCESS_KEY_ID": "nobody",
    "AWS_SECRET_ACCESS_KEY": "nothing",
}
"""Named, as it is when deployed, and never asked: no world is due."""

Event = Callable[[], bytes]


async def measure(bench: Bench) -> list[Figure]:
    """Measure starts, first answers and round trips through AWS's runtime interface client."""
    bench.say("functions")
    with bench.directory() as directory, _quiet(directory / "functions.log"):
        place = directory / "nothing" / "app.py"
        _written(place)
        storage = local(directory / "storage", app="airspace.app:app")
        made(storage)
        await _begun(directory / "storage")
        environment = {**storage.environment(), **QUEUE}
        nothing = Function("nothing", place, "handler", int(SECONDS))
        files = sorted((ROOT / "functions").glob("*/app.py"))
        found = [
            Function(each.parent.name, each, "handler", int(SECONDS), environment=environment)
            for each in files
        ]
        events = _events()
        figures: list[Figure] = []
        for each in found:
            figures += await _cold(bench, each, nothing, events[each.folder])
        api = next(each for each in found if each.folder == "api")
        return [*figures, await _warm(bench, api, nothing)]


@dataclass
class _Starts:
    """Starts of one function: until it asks for an event, and until it has answered its first."""

    function: Function
    event: Event
    answered: list[float] = field(default_factory=list)

    async def __call__(self) -> float:
        with Watch() as answering:
            with Watch() as starting:
                process = await FunctionProcess.start(self.function)
            reply = await process.run(self.event(), seconds=SECONDS)
        await process.kill()
        assert reply.get("statusCode", 200) == 200, reply
        self.answered.append(answering.seconds)
        return starting.seconds


async def _cold(bench: Bench, function: Function, nothing: Function, event: Event) -> list[Figure]:
    ours, least = _Starts(function, event), _Starts(nothing, event)
    started, floor = await in_turn(bench.scale.imports, ours, least)
    # Those that warmed up are not counted.
    answered = [Sample(tuple(each.answered[1:])) for each in (ours, least)]
    name = function.folder
    return [
        Figure(
            f"{name}, from the start of its process until it asks for an event",
            "s",
            started,
            floor,
            FLOOR,
        ),
        Figure(f"{name}, from the start of its process to its first answer", "s", *answered, FLOOR),
    ]


async def _warm(bench: Bench, api: Function, nothing: Function) -> Figure:
    processes = [await FunctionProcess.start(each) for each in (api, nothing)]
    event = _http("GET", "/healthz")

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
    return Figure("api, GET /healthz, warm", "ms", measured, floor, FLOOR)


def _events() -> Mapping[str, Event]:
    """Return what each function is first asked: to read the world, to tick it, or to look around."""
    ticks = count(1)

    def schedule(name: str) -> bytes:
        return (ROOT / "functions" / name / "events" / "schedule.json").read_bytes()

    return {
        "api": lambda: _http("GET", f"/v1/worlds/{WORLD}"),
        "query": lambda: _http("GET", f"/v1/worlds/{WORLD}/entities", query="components=Position"),
        "tick": lambda: _http("POST", f"/v1/worlds/{WORLD}/tick", {"to_tick": next(ticks)}),
        "dispatch": lambda: schedule("dispatch"),
        "land": lambda: schedule("land"),
    }


def _http(method: str, path: str, body: Any = None, *, query: str = "") -> bytes:
    event = http_event(
        method,
        path,
        query=query,
        headers={"content-type": "application/json"},
        body=b"" if body is None else json.dumps(body).encode(),
        request_id="bench",
        authorizer={"iam": {"userId": "a"}},
    )
    return json.dumps(event).encode()


async def _begun(root: Path) -> None:
    """Make a world with one published tick."""
    async with perdure.open(root.as_uri(), app=app) as storage:
        world = await storage.create_world(WORLD, world_id=WORLD)
        await world.submit([perdure.Spawn(Position(latitude=40.6, longitude=-73.8))])
        await world.run(to_tick=0)


def _written(place: Path) -> None:
    place.parent.mkdir()
    place.write_text(NOTHING, encoding="utf-8")


@contextlib.contextmanager
def _quiet(log: Path) -> Iterator[None]:
    """Keep what functions log, a line for each event, away from whoever reads the figures."""
    with log.open("w", encoding="utf-8") as told, contextlib.redirect_stderr(told):
        yield
