"""Going on with sessions: a queue hands out those that have something to do."""

from __future__ import annotations

from typing import Any, Final

from perdure.api.measures import tell
from perdure.api.ports_sessions import DrivePorts
from perdure.api.queue import Handed, message_of_session
from perdure.api.ticking import done_or_left, sent_on
from perdure.kernel.errors import PerdureError

HOLD_MS: Final = 60_000
"""So long a session's message is hidden while its process lives. Source: the lease of a deployment
(`LEASE_MS_CLOUD`), which the next process waits for anyway when one was killed."""


async def serve_message(ports: DrivePorts, handed: Handed, ms: int) -> dict[str, Any]:
    """Go on with the session that a message names.

    Raises: Later if it is not to be done now; Invalid kinds for a message that makes no sense;
    what keeps this process from the session.
    """
    due = ports.due_of(handed.body)
    told: dict[str, Any] = {"session": due.ref.session}
    served = await done_or_left(handed, ports.serve(due, ms=ms))
    if isinstance(served, PerdureError):
        return {**told, "left": served.code}
    tell("runs_ended", len(served.ended))
    if served.again is not None:
        told |= await sent_on(ports.queue, message_of_session(served.again))
    return {**told, "state": served.state, "runs": len(served.ended)}
