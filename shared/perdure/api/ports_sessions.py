"""Ports of sessions: what their routes, and whoever goes on with them, ask of the runtime."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from perdure.api.queue import Queue
from perdure.runtime.session.dispatch import DueSession
from perdure.runtime.session.serve import ServedSession
from perdure.runtime.session.sessions import Sessions


class SessionPorts(Protocol):
    """What the routes of sessions need."""

    @property
    def sessions(self) -> Sessions: ...
    @property
    def pause(self) -> Callable[[float], Awaitable[None]]:
        """Wait so many seconds."""
        ...

    async def nudge(self, session: str) -> None:
        """Let somebody go on with a session soon. What is lost here is found by its hint."""
        ...


class DrivePorts(Protocol):
    """What going on with sessions needs."""

    @property
    def queue(self) -> Queue: ...

    def due_of(self, body: str) -> DueSession:
        """Read a message's body. Raises Invalid kinds."""
        ...

    async def serve(self, due: DueSession, *, ms: int) -> ServedSession:
        """Go on with a session that is due, for at most ``ms``."""
        ...
