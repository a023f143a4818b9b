"""Ticking by itself: a schedule finds the worlds that are due, a queue hands them to writers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

from perdure.api.measures import tell
from perdure.api.queue import (
    Handed,
    Later,
    Message,
    Queue,
    message_of,
    message_of_job,
    message_of_session,
)
from perdure.kernel.errors import (
    ConsumerBehind,
    FenceHeld,
    PerdureError,
    Stalled,
    StoreUnavailable,
)
from perdure.runtime.dispatch import Due, Found
from perdure.runtime.documents.jobs.dispatch import FoundJobs
from perdure.runtime.documents.jobs.dispatch import Tell as TellJobs
from perdure.runtime.hints import Looked
from perdure.runtime.session.dispatch import FoundSessions
from perdure.runtime.session.dispatch import Tell as TellSessions

D = TypeVar("D")
T = TypeVar("T")

NOT_NOW: Final = (FenceHeld, ConsumerBehind, Stalled)
"""What keeps a world for a while, and is nobody's fault."""

NOT_NOW_MS: Final = 20_000
NOT_NOW_TRIES: Final = 3
"""After that the world is left to the next dispatch, which finds it due still: no dead letter."""

LAST_PAGE_MS: Final = 5_000
"""No page of hints is begun with less time left: its worlds are to be looked at and told of."""

AGAIN_MS_FIRST: Final = 5_000
AGAIN_MS_MAX: Final = 300_000
"""A message that failed is handed out again after 5 s, 10 s, 20 s, …"""


@dataclass(frozen=True, slots=True)
class Served:
    """What serving one world came to."""

    ticks: int = 0
    early_ms: int = 0
    again: Due | None = None
    retired: bool = False


class DispatchPorts(Protocol):
    """What dispatching needs."""

    @property
    def queue(self) -> Queue: ...

    @property
    def sessions_queue(self) -> Queue | None:
        """The queue of sessions, if the deployment has one."""
        ...

    async def look(self, *, ms: int, tell: Callable[[Sequence[Due]], Awaitable[None]]) -> Found:
        """Find the worlds that are due, for at most ``ms``, and tell of them as they are found."""
        ...

    @property
    def jobs_queue(self) -> Queue | None:
        """The queue of jobs, if the deployment has one."""
        ...

    async def look_at_sessions(self, *, ms: int, tell: TellSessions) -> FoundSessions:
        """Find the sessions that are due, as worlds are found."""
        ...

    async def look_at_jobs(self, *, ms: int, tell: TellJobs) -> FoundJobs:
        """Find the jobs that are due, as worlds are found."""
        ...


class ServePorts(Protocol):
    """What serving a schedule needs."""

    @property
    def queue(self) -> Queue: ...

    def due_of(self, body: str) -> Due:
        """Read a message's body. Raises Invalid kinds."""
        ...

    async def serve(self, due: Due, *, ms: int) -> Served:
        """Tick one world that is due, as often as it is, for at most ``ms``."""
        ...


async def dispatch_due(ports: DispatchPorts, remaining_ms: int) -> dict[str, Any]:
    """Send a message for each world, session and job that is due, as a schedule asks.

    A duplicate changes nothing: the queue takes no message twice, and a writer serves each time
    of a schedule once. Raises StoreUnavailable, at the end, if a message was not taken.
    """
    unsent: list[StoreUnavailable] = []

    def sender(queue: Queue, spell: Callable[[D], Message]) -> Callable[[Sequence[D]], Any]:
        async def send(dues: Sequence[D]) -> None:
            try:
                await queue.send([spell(due) for due in dues])
            except StoreUnavailable as error:  # what is found later may be taken all the same
                unsent.append(error)

        return send

    async def sessions(ms: int) -> FoundSessions:
        if ports.sessions_queue is None:
            return Looked(())
        send = sender(ports.sessions_queue, message_of_session)
        return await ports.look_at_sessions(ms=ms, tell=send)

    async def jobs(ms: int) -> FoundJobs:
        if ports.jobs_queue is None:
            return Looked(())
        return await ports.look_at_jobs(ms=ms, tell=sender(ports.jobs_queue, message_of_job))

    ms = remaining_ms - min(LAST_PAGE_MS, remaining_ms // 2)
    # Side by side: whichever has the most to do, the other is not left out.
    found, talks, work = await asyncio.gather(
        ports.look(ms=ms, tell=sender(ports.queue, message_of)), sessions(ms), jobs(ms)
    )
    _measured(found, talks, work)
    if unsent:
        raise unsent[0]
    failed = [f"{ref.world}: {error.code}" for ref, error in found.failed]
    failed += [f"session {ref.session}: {error.code}" for ref, error in talks.failed]
    failed += [f"job {ref}: {error.code}" for ref, error in work.failed]
    return {
        "due": len(found.due),
        "failed": failed,
        "oldest_due_ms": found.oldest_due_ms,
        "stalled": found.stalled,
        "done": found.done and talks.done and work.done,
        "sessions": len(talks.due),
        "jobs": len(work.due),
    }


def _measured(found: Found, talks: FoundSessions, work: FoundJobs) -> None:
    tell("jobs_due", len(work.due))
    tell("jobs_failed", len(work.failed))
    tell("sessions_due", len(talks.due))
    tell("sessions_failed", len(talks.failed))
    tell("worlds_due", len(found.due))
    tell("worlds_stalled", found.stalled)
    tell("worlds_failed", len(found.failed))
    tell("oldest_due_ms", found.oldest_due_ms)


async def serve_message(ports: ServePorts, handed: Handed, ms: int) -> dict[str, Any]:
    """Serve the world that a message names.

    Raises: Later if it is not to be done now; Invalid kinds for a message that makes no sense;
    what keeps this process from the world.
    """
    due = ports.due_of(handed.body)
    told: dict[str, Any] = {"world": due.ref.world}
    served = await done_or_left(handed, ports.serve(due, ms=ms))
    if isinstance(served, PerdureError):
        return {**told, "left": served.code}
    if served.early_ms:
        raise Later(served.early_ms)
    if served.again is not None:
        told |= await sent_on(ports.queue, message_of(served.again))
    return {**told, "ticks": served.ticks, "retired": served.retired}


async def done_or_left(handed: Handed, work: Awaitable[T]) -> T | PerdureError:
    """Do the work of a message, or return why it is left to the next dispatch.

    Raises: Later if it is to be tried again soon; what else the work raises.
    """
    try:
        return await work
    except NOT_NOW as error:
        if handed.tries > NOT_NOW_TRIES:
            return error
        raise Later(NOT_NOW_MS, error) from error


async def sent_on(queue: Queue, message: Message) -> dict[str, str]:
    """Send what is to be gone on with, and tell if that failed: the next dispatch finds it as well."""
    try:
        await queue.send([message])
    except StoreUnavailable as error:
        return {"not_sent": error.code}
    return {}


def again_ms(tries: int) -> int:
    """Return when a message that failed ``tries`` times is handed out again."""
    return min(AGAIN_MS_FIRST << min(tries - 1, 10), AGAIN_MS_MAX)
