"""Sessions of the Python face: everything that can be asked of one, and going on with it here."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from perdure.kernel.ids import Instant, SessionId
from perdure.kernel.session.control import ApprovalReply
from perdure.kernel.session.create import SessionInfo
from perdure.kernel.session.send import SendReply
from perdure.runtime.session.runner import Driven
from perdure.runtime.session.sessions import Sessions
from perdure.runtime.session.transcript import BYTES_DEFAULT, FRAMES_DEFAULT, TranscriptPage
from perdure.runtime.session.work import Happened, Said, Told, unheard

RUN_MS: Final = 24 * 60 * 60 * 1_000
"""Driving a session in one's own process has a day; a function has less."""


@dataclass(frozen=True, slots=True)
class Session:
    """One session of an open storage."""

    sessions: Sessions
    session_id: SessionId

    async def info(self) -> SessionInfo:
        """Tell what is known of the session, and which of its calls wait for a word."""
        return await self.sessions.describe(self.session_id)

    async def send(
        self,
        input: str,
        *,
        delivery: str = "queue",
        send_id: str | None = None,
        run_id: str | None = None,
        overrides: Mapping[str, Any] | None = None,
        title: str | None = None,
    ) -> SendReply:
        """Deliver something, at most once for its send id; nothing of it is done yet: see :meth:`run`.

        While a run goes on, ``queue`` waits for its end, ``steer`` joins it at its next step, and
        ``interrupt`` ends it and comes next.
        Raises: Invalid kinds, SendIdReuse, Conflict, RunPaused, QueueFull, SessionTooLarge kinds,
        NewerWriter; Unavailable kinds with ``send_id`` set.
        """
        return await self.sessions.send(
            self.session_id,
            input,
            delivery=delivery,
            send_id=send_id,
            run_id=run_id,
            overrides=overrides,
            title=title,
        )

    async def retract(self, send_id: str) -> SendReply:
        """Take back a send that still waits. Raises NotFound, NotRetractable."""
        return await self.sessions.retract(self.session_id, send_id)

    async def cancel(self, run_id: str, *, at: str = "boundary") -> SendReply:
        """Ask for the end of a run, after its batch of calls (``boundary``) or ``now``.

        Raises: InvalidValue, NotFound.
        """
        return await self.sessions.cancel(self.session_id, run_id, at)

    async def approve(self, call_key: str, detail: str | None = None) -> ApprovalReply:
        """Let a call be made that waits for a word. Raises NotFound, AlreadyDecided."""
        return await self.sessions.resolve(self.session_id, call_key, "approved", detail=detail)

    async def deny(self, call_key: str, detail: str | None = None) -> ApprovalReply:
        """Keep a call from being made; its model reads ``detail``. Raises as approving does."""
        return await self.sessions.resolve(self.session_id, call_key, "denied", detail=detail)

    async def transcript(
        self,
        *,
        after: int = 0,
        limit: int = FRAMES_DEFAULT,
        bytes_max: int = BYTES_DEFAULT,
        lineage: str | None = None,
    ) -> TranscriptPage:
        """Return frames of the journal behind a seq.

        Raises: Invalid, LineageChanged, Corrupt, PayloadMissing.
        """
        return await self.sessions.transcript(
            self.session_id, after=after, limit=limit, bytes_max=bytes_max, lineage=lineage
        )

    async def run(self, told: Told = unheard, *, ms: int = RUN_MS) -> Driven:
        """Go on with what was sent, here, until nothing is to be done or somebody must be asked.

        ``told`` hears text as the model says it (``Said``), and facts when they are durable
        (``Happened``), never before.
        Raises: FenceHeld while another goes on with it, UnknownAgent, Corrupt, NewerWriter,
        PayloadMissing, StaleWriter, Unavailable kinds; the same call goes on from what is durable.
        """
        deadline = Instant(self.sessions.means.now() + ms)
        return await self.sessions.drive(self.session_id, deadline=deadline, told=told)

    async def events(self, *, ms: int = RUN_MS) -> AsyncIterator[Said | Happened]:
        """Go on as :meth:`run` does, and yield what it would tell.

        Whoever leaves the iteration early stops the work; what is durable stays.
        """
        heard: asyncio.Queue[Said | Happened | None] = asyncio.Queue()
        task = asyncio.ensure_future(self.run(heard.put_nowait, ms=ms))
        task.add_done_callback(lambda _: heard.put_nowait(None))
        try:
            while (event := await heard.get()) is not None:
                yield event
            await task
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await task
