"""Serving: going on with a session that was said to be due."""

from __future__ import annotations

from dataclasses import dataclass

from perdure.kernel.errors import FenceHeld, NotFound
from perdure.kernel.ids import AgentRunId, Instant
from perdure.kernel.session.create import SessionInfo
from perdure.kernel.session.owner import RestSession
from perdure.runtime.session.dispatch import DueSession
from perdure.runtime.session.sessions import Sessions


@dataclass(frozen=True, slots=True)
class ServedSession:
    """What going on with one session came to."""

    state: str
    """As it was left: ``idle``, ``paused`` or ``out_of_time``; ``rests`` if nothing was to do."""

    ended: tuple[AgentRunId, ...] = ()
    again: DueSession | None = None
    """It is to be gone on with at once, by the next process."""


async def serve(sessions: Sessions, due: DueSession, *, deadline: Instant) -> ServedSession:
    """Go on with a session that was said to be due, until ``deadline``.

    Raises: FenceHeld while another does; as :func:`perdure.runtime.session.runner.drive` does.
    """
    if not await _has_work(sessions, due):
        return ServedSession("rests")
    driven = await sessions.drive(due.ref.session, deadline=deadline)
    is_due = driven.state == "out_of_time"
    if due.hint is not None and not is_due:
        # What was sent while it was laid down is found by this very look.
        rest = await sessions.means.authority.execute(RestSession(due.ref, due.hint))
        is_due = rest == "due" and await _has_more(sessions, due)
    again = DueSession(due.ref, sessions.means.new_token(), due.hint) if is_due else None
    return ServedSession(driven.state, driven.ended, again)


async def _has_work(sessions: Sessions, due: DueSession) -> bool:
    """Ask the head first: who finds nothing to do reads no journal. Raises FenceHeld."""
    authority = sessions.means.authority
    if due.hint is not None:
        rest = await authority.execute(RestSession(due.ref, due.hint))
        if rest == "held":
            raise FenceHeld(expected=f"a free fence on session {due.ref.session!r}", found="held")
        if rest == "due":
            return True
    try:
        info = await sessions.describe(due.ref.session)
    except NotFound:
        return False
    return has_work(info)


async def _has_more(sessions: Sessions, due: DueSession) -> bool:
    """Say whether a session that was gone on with has something to do at once.

    Evidence that could not be written is no such thing: its hint stays, and the next look finds it.
    """
    info = await sessions.describe(due.ref.session)
    return info.run_state == "active" or info.queued > 0


def has_work(info: SessionInfo) -> bool:
    """Say whether somebody must go on with a session, as far as nobody is waited for."""
    waits = info.queued > 0 or info.lacks_evidence
    return info.run_state == "active" or (info.run_state == "idle" and waits)
