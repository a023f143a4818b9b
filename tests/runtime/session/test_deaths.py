"""A process at a session dies at any one of its steps; the next one ends the run as the class says.

A step is a commit or a call of a tool; a process dies before it, after it, or never hears of it.
What a tool did is counted outside of every process, by call key.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from dataclasses import dataclass, field

import pytest
from tests.support.sessions import MemoryObjects, app_with, sessions_on
from tests.support.steps import Died, NoAnswer, SteppedStore, Steps

from perdure.authority.memory import MemoryStore
from perdure.kernel.errors import PerdureError
from perdure.kernel.ids import Holder, Instant
from perdure.kernel.session.messages import AssistantMessage, ToolAnswers
from perdure.runtime.session.journal import Journal
from perdure.runtime.session.model_scripted import calling
from perdure.runtime.session.ports import Completed, OutcomeNotKnown, ToolSpec

pytestmark = pytest.mark.sessions

LEASE_MS = 20_000
SCRIPT = [
    calling(("look", {}), ("note", {"what": "calm"}), ("launch", {"at": "dawn"}), text="I look. "),
    calling(("ask", {"for": "leave"})),
    "Done.",
]
EFFECTS = {"look": "pure", "note": "idempotent", "launch": "effectful", "ask": "effectful"}


@dataclass
class World:
    """What outlives every process: records, objects, effects, time."""

    store: MemoryStore = field(default_factory=MemoryStore)
    objects: MemoryObjects = field(default_factory=MemoryObjects)
    done: Counter = field(default_factory=Counter)
    """How often each call had its effect, by name and call key."""
    asked: list[int] = field(default_factory=list)
    """How many messages each request to the model had."""
    at: int = 1_700_000_000_000
    processes: itertools.count = field(default_factory=lambda: itertools.count(1))

    def now(self):
        self.at += 1
        return Instant(self.at)


@dataclass
class Tool:
    world: World
    steps: Steps
    spec: ToolSpec

    async def call(self, request):
        async def effect():
            self.world.done[self.spec.name, request.call_key] += 1
            return Completed({"done": self.spec.name})

        try:
            return await self.steps.reach(effect, "call")
        except NoAnswer:
            return OutcomeNotKnown("reset", "The connection was lost.")


def process(world, steps):
    """Return the sessions as a new process has them."""

    def script(request, said):
        world.asked.append(len(request.messages))
        spoken = [each for each in request.messages if isinstance(each, AssistantMessage)]
        return SCRIPT[len(spoken)] if len(spoken) < len(SCRIPT) else "And again."

    tools = [
        Tool(
            world,
            steps,
            ToolSpec(
                name=name,
                description="",
                schema={"type": "object"},
                effect=effect,
                module="function",
                needs_approval=name == "ask",
            ),
        )
        for name, effect in EFFECTS.items()
    ]
    number = next(world.processes)
    return sessions_on(
        SteppedStore(world.store, steps),
        script=script,
        objects=world.objects,
        clock=world.now,
        app=app_with(tools=tools),
        prefix=f"{number:04x}",
    )


async def lived(world, steps):
    """Let one process do what is left to do, people included. Raises Died."""
    sessions = process(world, steps)
    await sessions.create("pilot", session_id="s")
    await sessions.send("s", "Fly.", send_id="first")
    await sessions.send("s", "Then land.", send_id="second")
    for _ in range(20):
        try:
            driven = await sessions.drive("s", deadline=Instant(world.at + 600_000))
        except PerdureError:
            world.at += 2 * LEASE_MS
            continue
        if driven.state == "idle":
            return sessions
        for call in (await sessions.describe("s")).waiting_calls:
            await sessions.resolve("s", call.call_key, "approved")
    raise AssertionError("the session never comes to rest")


async def died_and_lived(when, die_at):
    """Return the world, and the sessions as the second process left them; None past the end."""
    world = World()
    steps = Steps(die_at, when=when)
    try:
        sessions = await lived(world, steps)
    except (Died, BaseExceptionGroup):
        world.at += 2 * LEASE_MS
        sessions = await lived(world, Steps())
    kind = steps.kinds[die_at - 1] if steps.taken >= die_at else None
    page = await sessions.transcript("s", limit=500)
    return world, kind, page.frames, await folded(sessions)


async def folded(sessions):
    journal = await Journal.open(sessions.means, sessions.ref("s"), Holder("reader"), LEASE_MS)
    return journal.fold


def checked(world, frames, fold):
    """Hold what a session came to to what must be whoever died; return the ends of its runs."""
    for (name, key), times in world.done.items():
        assert EFFECTS[name] != "effectful" or times == 1, (name, key, times)
    kinds = Counter(frame.type for frame in frames)
    assert kinds["run_started"] == kinds["run_finished"] == 2
    ends = [frame.payload["reason"] for frame in frames if frame.type == "run_finished"]
    intents = {
        (frame.payload["batch_id"], frame.payload["tool_call_id"])
        for frame in frames
        if frame.type == "tool_dispatch_intent"
    }
    results = Counter(
        (frame.payload["batch_id"], frame.payload["tool_call_id"])
        for frame in frames
        if frame.type in {"tool_result", "tool_no_dispatch"}
    )
    assert set(results.values()) <= {1}
    assert intents <= set(results)
    for message, following in itertools.pairwise([*fold.messages, None]):
        if isinstance(message, AssistantMessage) and message.calls:
            assert isinstance(following, ToolAnswers)
            assert [each.tool_call_id for each in following.answers] == [
                each.tool_call_id for each in message.calls
            ]
    said = [frame.payload["input"] for frame in frames if frame.type == "run_started"]
    assert said == ["Fly.", "Then land."]
    unknown = [
        frame
        for frame in frames
        if frame.type == "tool_result" and frame.payload["outcome"] == "unknown"
    ]
    assert ("interrupted" in ends) == bool(unknown)
    return ends


def steps_of_an_undisturbed_life():
    steps = Steps()
    asyncio.run(lived(World(), steps))
    return steps.kinds


KINDS = steps_of_an_undisturbed_life()
PLACES = [
    (when, place) for when in ("before", "after", "lost") for place in range(1, len(KINDS) + 1)
]


@pytest.mark.parametrize(("when", "place"), PLACES)
def test_a_session_comes_to_its_end_whichever_step_its_process_dies_at(when, place):
    world, kind, frames, fold = asyncio.run(died_and_lived(when, place))

    ends = checked(world, frames, fold)

    if kind == "commit" and when == "lost":
        assert ends == ["completed", "completed"]
    if "interrupted" not in ends:
        assert {name for name, _ in world.done} == set(EFFECTS)
