"""The story that each process of a harness goes on with: a session, two sends, calls of each kind."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Final

from perdure.authority.engine import Authority
from perdure.authority.store import Store
from perdure.kernel.errors import FenceHeld
from perdure.kernel.ids import Instant, StorageId, Token
from perdure.kernel.session.frames import Entry
from perdure.kernel.session.messages import Effect, Message
from perdure.runtime.app import App
from perdure.runtime.session.agent import Agent
from perdure.runtime.session.journal import Means
from perdure.runtime.session.model_scripted import ScriptedModel, Step, calling
from perdure.runtime.session.payloads import Objects
from perdure.runtime.session.ports import (
    CallOutcome,
    CallRequest,
    Completed,
    ModelRequest,
    Pause,
    ToolSpec,
)
from perdure.runtime.session.sessions import Sessions
from perdure.runtime.session.testing.points import Doom, DoomedStore, KillPoint
from perdure.runtime.session.toolbox import Toolbox
from perdure.runtime.session.work import Happened, Said

Note = Callable[[str, Any], None]
"""Keeps a word and JSON where they outlive every process, in the order in which they come."""

SESSION: Final = "story"
OTHER: Final = "another"
EFFECTS: Final[dict[str, Effect]] = {"look": "pure", "note": "idempotent", "launch": "effectful"}
SENDS: Final = {"first": "Fly.", "second": "Then land."}

_SCRIPT: Final[dict[str, tuple[Step, ...]]] = {
    SENDS["first"]: (
        calling(("look", {}), ("note", {"what": "calm"}), ("launch", {"at": "dawn"})),
        "Flown.",
    ),
    SENDS["second"]: ("Landed.",),
}
_RUN_MS: Final = 600_000
_WAIT_S: Final = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What a harness gives a process: its data, its clock, and where it ends."""

    store: Store
    objects: Objects
    now: Callable[[], Instant]
    new_token: Callable[[], Token]
    """Never draws the token of another process."""

    pause: Pause
    """Waits also for the lease of a process that has ended."""

    note: Note
    doom: Doom
    lease_ms: int


@dataclass(frozen=True, slots=True)
class _Tool:
    """A tool whose effect is a note."""

    bench: Bench
    spec: ToolSpec

    async def call(self, request: CallRequest) -> CallOutcome:
        self.bench.doom.check_alive()
        self.bench.note("effect", {"tool": self.spec.name, "call_key": request.call_key})
        if self.spec.effect == "effectful":
            self.bench.doom.reach(KillPoint.DISPATCHED)
        return Completed({"done": self.spec.name})


async def live(bench: Bench) -> None:
    """Do what is left of the story, from the first call on, and note all that is seen of it."""
    sessions = sessions_on(bench)
    for session in (SESSION, OTHER):
        info = await sessions.create("pilot", session_id=session)
        bench.note("created", {"session": session, "lineage": info.lineage})
    for send, text in SENDS.items():
        reply = await sessions.send(SESSION, text, send_id=send)
        bench.note("sent", {"send": send, "run": reply.run_id})
    while not await _came_to_rest(bench, sessions):
        await bench.pause(_WAIT_S)
    page = await sessions.transcript(SESSION, limit=500)
    frames = [{"seq": each.seq, "type": each.type, **_payload(each)} for each in page.frames]
    bench.note("transcript", {"lineage": page.lineage, "frames": frames})


def sessions_on(bench: Bench) -> Sessions:
    """Return the sessions of the story as a process has them."""

    def landed(entry: Entry) -> None:
        bench.note("durable", {"at": entry.partition, "seq": entry.last})

    def script(request: ModelRequest, _said: int) -> Step:
        bench.doom.check_alive()
        bench.note("asked", [_spelled(each) for each in request.messages])
        return _next(request)

    store = DoomedStore(bench.store, bench.doom, landed)
    authority = Authority(store, bench.now, bench.new_token)
    means = Means(authority, bench.objects, bench.now, bench.new_token, bench.pause)
    model = ScriptedModel(script, bench.now)
    return Sessions(
        means, StorageId("story"), _app(bench), lambda _: model, lease_ms=bench.lease_ms
    )


def _app(bench: Bench) -> App:
    tools = [
        _Tool(bench, ToolSpec(name=name, description="", schema={"type": "object"}, effect=effect))
        for name, effect in EFFECTS.items()
    ]
    app = App("story")
    app.agent(Agent(name="pilot", model="scripted:story", tools=Toolbox(*tools), system="Fly."))
    return app


def _next(request: ModelRequest) -> Step:
    """Say what follows the last send in a prompt: nothing is counted in a process."""
    spelled = [_spelled(each) for each in request.messages]
    last = max(index for index, each in enumerate(spelled) if "text" in each and each["user"])
    said = sum(not each["user"] and "text" in each for each in spelled[last:])
    return _SCRIPT[spelled[last]["text"]][said]


async def _came_to_rest(bench: Bench, sessions: Sessions) -> bool:
    def told(event: Said | Happened) -> None:
        if isinstance(event, Happened):
            for index, fact in enumerate(event.facts):
                seen = {"seq": event.first_seq + index, "type": fact.type, **_payload(fact)}
                bench.note("told", seen)

    try:
        driven = await sessions.drive(SESSION, deadline=Instant(bench.now() + _RUN_MS), told=told)
    except FenceHeld:
        return False
    return driven.state == "idle"


def _payload(of: Any) -> dict[str, Any]:
    payload = of.payload() if callable(of.payload) else of.payload
    told: dict[str, Any] = json.loads(json.dumps({"payload": payload}))
    return told


def _spelled(message: Message) -> dict[str, Any]:
    spelled: dict[str, Any] = json.loads(json.dumps(asdict(message)))
    return {"user": set(spelled) == {"text"}, **spelled}
