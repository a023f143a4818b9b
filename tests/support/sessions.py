"""Sessions for tests: an authority in memory, an agent with a scripted model, tools that count."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from perdure.authority.engine import Authority
from perdure.authority.memory import MemoryStore
from perdure.authority.packing import unpacked
from perdure.authority.store import Store
from perdure.kernel.errors import NotFound
from perdure.kernel.ids import Instant, Partition, StorageId, Token
from perdure.kernel.session.records import SessionHead
from perdure.runtime.app import App
from perdure.runtime.session.agent import Agent
from perdure.runtime.session.journal import Means
from perdure.runtime.session.model_scripted import ScriptedModel, calling
from perdure.runtime.session.ports import CallOutcome, CallRequest, Completed, ToolSpec
from perdure.runtime.session.sessions import Sessions
from perdure.runtime.session.toolbox import Toolbox

STORAGE = StorageId("memory")

SCHEMA = {"type": "object"}


@dataclass
class MemoryObjects:
    """Objects in a dictionary."""

    held: dict[str, bytes] = field(default_factory=dict)

    async def put(self, name: str, data: bytes) -> None:
        self.held[name] = bytes(data)

    async def get(self, name: str) -> bytes:
        if name not in self.held:
            raise NotFound(expected="an object", found="none")
        return self.held[name]

    async def delete(self, name: str) -> None:
        self.held.pop(name, None)


@dataclass
class Counting:
    """A tool that says how often it was called."""

    spec: ToolSpec
    calls: list[CallRequest] = field(default_factory=list)

    async def call(self, request: CallRequest) -> CallOutcome:
        self.calls.append(request)
        return Completed({"calls": len(self.calls)})


@dataclass
class HeldSessions:
    """The ports of the routes, over sessions that a test holds."""

    sessions: Sessions
    nudged: list[str] = field(default_factory=list)
    pauses: list[float] = field(default_factory=list)

    async def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        await asyncio.sleep(0)

    async def nudge(self, session: str) -> None:
        self.nudged.append(session)


@dataclass
class Clock:
    """A clock that goes on by a millisecond whenever somebody looks."""

    at: int = 1_700_000_000_000

    def __call__(self) -> Instant:
        self.at += 1
        return Instant(self.at)


def counting(name: str, **more: Any) -> Counting:
    return Counting(ToolSpec(name=name, description="", schema=SCHEMA, module="function", **more))


def answering(request: Any, said: int) -> str:
    """A script without an end."""
    return f"answer {said}"


def asking_first(request: Any, said: int) -> Any:
    """A script whose first step asks for a call that needs somebody's word."""
    return calling(("launch", {"at": "dawn"}), text="May I? ") if said == 0 else "Done."


def app_with(*, tools: Sequence[Any] = (), name: str = "harbour", agent: str = "pilot") -> App:
    """Return an app whose one agent has a scripted model."""
    app = App(name)
    app.agent(Agent(name=agent, model="scripted:test", tools=Toolbox(*tools), system="Be brief."))
    return app


def sessions_on(
    store: Store | None = None,
    *,
    script: Any = answering,
    tools: Sequence[Any] = (),
    objects: MemoryObjects | None = None,
    clock: Callable[[], Instant] | None = None,
    app: App | None = None,
    prefix: str = "",
) -> Sessions:
    """Return the sessions of a store, by default of an empty one in memory."""
    now = Clock() if clock is None else clock
    drawn = itertools.count(1)

    def new_token() -> Token:
        return Token(f"{prefix}{next(drawn):0{32 - len(prefix)}x}")

    authority = Authority(MemoryStore() if store is None else store, now, new_token)
    held = MemoryObjects() if objects is None else objects
    means = Means(authority, held, now, new_token, asyncio.sleep)
    model = ScriptedModel(script, now)
    chosen = app_with(tools=tools) if app is None else app
    return Sessions(means, STORAGE, chosen, lambda _: model)


def within(sessions: Sessions, ms: int = 600_000) -> Instant:
    """Return a deadline so far ahead."""
    return Instant(sessions.means.now() + ms)


def head_in(store: MemoryStore, partition: Partition) -> SessionHead:
    """Return the head of a session as the store holds it."""
    return next(
        SessionHead.read(key.partition, key.sort, _unpacked(stored.body))
        for key, stored in store._records.items()
        if key.partition == partition and key.sort == "head"
    )


def _unpacked(body: bytes) -> bytes:
    found = unpacked(body)
    assert isinstance(found, bytes)
    return found
