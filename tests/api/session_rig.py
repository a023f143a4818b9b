"""A session behind the routes, on a store in memory, with a caller of every role."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from tests.api.rig import Caller, bearer
from tests.support.sessions import (
    STORAGE,
    HeldSessions,
    MemoryObjects,
    answering,
    head_in,
    sessions_on,
    within,
)

from perdure.api import faces
from perdure.api.sandbox import Sandbox
from perdure.authority.memory import MemoryStore
from perdure.kernel.ids import SessionId
from perdure.kernel.session.records import SessionRef

REF = SessionRef(STORAGE, SessionId("talk"))
TALK = "/v1/sessions/talk"


@dataclass
class Talk:
    """A session behind the routes, and everything beneath it."""

    ports: HeldSessions
    store: MemoryStore
    objects: MemoryObjects
    sandbox: Sandbox
    ann: Caller

    def as_(self, role, actor="ann"):
        return replace(self.ann, authorizer=bearer(role, actor))

    @property
    def seq(self):
        return head_in(self.store, REF.partition).seq

    def run(self):
        """Go on with the session, as its function does."""
        sessions = self.ports.sessions
        driving = sessions.drive("talk", deadline=within(sessions))
        return self.sandbox._loop().run(driving)


def talking(script=answering, **more):
    store, objects = MemoryStore(), MemoryObjects()
    sessions = sessions_on(store, script=script, objects=objects, **more)
    ports = HeldSessions(sessions)

    @asynccontextmanager
    async def opening():
        yield ports

    sandbox = Sandbox(opening, faces.SESSIONS)
    ann = Caller(sandbox, authorizer=bearer("player"))
    made = ann("POST", "/v1/sessions", {"agent": "pilot", "session_id": "talk"})
    assert made.status == 201, made
    return Talk(ports, store, objects, sandbox, ann)
