"""Ticking by itself: a schedule finds the worlds that are due, a queue hands them to writers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from perdure.api.measures import tell
from perdure.api.queue import Handed, Later, Queue, message_of
from perdure.kernel.errors import ConsumerBehind, FenceHeld, Stalled, StoreUnavailable
from perdure.runtime.dispatch import Due, Found

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

    async def look(self, *, ms: int, tell: Callable[[Sequence[Due]], Awaitable[None]]) -> Found:
        """Find the worlds that are due, for at most ``ms``, and tell of them as they are found."""
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
    """Send a message for each world that is due, as a schedule asks.

    A duplicate changes nothing: the queue takes no message twice, and a writer serves each time
    of a schedule once. Raises StoreUnavailable, at the end, if a message was not taken.
    """
    unsent: list[StoreUnavailable] = []

    async def send(dues: Sequence[Due]) -> None:
        try:
            await ports.queue.send([message_of(due) for due in dues])
        except StoreUnavailable as error:  # what is found later may be taken all the same
            unsent.append(error)

    reserve_ms = min(LAST_PAGE_MS, remaining_ms // 2)
    found = await ports.look(ms=remaining_ms - reserve_ms, tell=send)
    tell("worlds_due", len(found.due))
    tell("worlds_stalled", found.stalled)
    tell("worlds_failed", len(found.failed))
    tell("oldest_due_ms", found.oldest_due_ms)
    if unsent:
        raise unsent[0]
    failed = [f"{ref.world}: {error.code}" for ref, error in found.failed]
    return {
        "due": len(found.due),
        "failed": failed,
        "oldest_due_ms": found.oldest_due_ms,
        "stalled": found.stalled,
        "done": found.done,
    }


async def serve_message(ports: ServePorts, handed: Handed, ms: int) -> dict[str, Any]:
    """Serve the world that a message names.

    Raises: Later if it is not to be done now; Invalid kinds for a message that makes no sense;
    what keeps this process from the world.
    """
    due = ports.due_of(handed.body)
    told: dict[str, Any] = {"world": due.ref.world}
    try:
        served = await ports.serve(due, ms=ms)
    except NOT_NOW as error:
        if handed.tries > NOT_NOW_TRIES:
            return {**told, "left": error.code}
        raise Later(NOT_NOW_MS, error) from error
    if served.early_ms:
        raise Later(served.early_ms)
    if served.again is not None:
        try:
            await ports.queue.send([message_of(served.again)])
        except StoreUnavailable as error:  # the next dispatch finds the world as well
            told["not_sent"] = error.code
    return {**told, "ticks": served.ticks, "retired": served.retired}


def again_ms(tries: int) -> int:
    """Return when a message that failed ``tries`` times is handed out again."""
    return min(AGAIN_MS_FIRST << min(tries - 1, 10), AGAIN_MS_MAX)
