"""Views of a Durable Session as sources, for those who have `pi-durable-python`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from perdure.kernel.documents.errors import FollowFailed
from perdure.runtime.documents.follow.host import Attach, Observation, Observer


def attach_document(session: Any, token: Any, *args: Any) -> Attach:
    """Return how to follow a document of a Session: ``args`` are those of its ``watch_doc``.

    The Session tells of a commit after the store has adopted it, in turns of its own: a source of
    this and one of the store itself are in two batches. It ends when the document is retired or
    the Session closed; a Session that fails, fails the attempt.
    """

    async def attach(observer: Observer) -> Observation | None:
        watch = await session.watch_doc(token, *args)
        if watch is None:
            return None

        def changed(_value: Any, ops: Sequence[Any], _context: Any) -> None:
            observer.change([list(op) for op in ops])

        def closed(end: asyncio.Future[Any]) -> None:
            if end.cancelled() or end.result()["reason"] in ("stopped", "cancelled"):
                return
            if end.result()["reason"] in ("retired", "session_closed"):
                observer.ended()
            else:
                observer.failed(_failure(end.result()))

        observation = Observation(watch.value, watch.stop)
        watch.start(changed)
        watch.closed.add_done_callback(closed)
        return observation

    return attach


def _failure(end: dict[str, Any]) -> Exception:
    error = end.get("error")
    if isinstance(error, Exception):
        return error
    return FollowFailed(expected="a Session that goes on", found=str(end["reason"]))
