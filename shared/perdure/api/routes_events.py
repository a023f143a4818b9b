"""The route of events: what happens in a session, as server-sent events."""

from __future__ import annotations

import asyncio
import re
from dataclasses import asdict
from typing import Any, Final

from perdure.api import models_sessions as models
from perdure.api.deadlines import time_left
from perdure.api.decoding import header
from perdure.api.gateway import Answer, Request
from perdure.api.ports_sessions import SessionPorts
from perdure.api.routing import Route, route
from perdure.kernel.canonical import canonical
from perdure.kernel.errors import InvalidValue
from perdure.kernel.shown import shown
from perdure.runtime.session.transcript import TranscriptPage

STREAM: Final = "text/event-stream"
LAST_EVENT_ID: Final = "last-event-id"

RETRY_MS: Final = 1_000
"""How long a client waits before it asks for what follows."""

POLL_SECONDS: Final = 0.25
"""Between two looks at a journal that somebody waits for."""

_ID: Final = re.compile(r"([A-Za-z0-9_-]{1,64}):(\d{1,19})", re.ASCII)


@route(
    "GET",
    "/v1/sessions/<session>/events",
    operation="read_transcript",
    reply=None,
    also=(STREAM,),
)
async def read_events(
    ports: SessionPorts, session: str, query: models.Events, request: Request
) -> Answer:
    """Follow a session: its frames behind ``after`` as server-sent events, and then the end.

    With ``wait``, wait so long for a first event. An event's id is ``lineage:seq``; a client that
    sends it back as the header ``Last-Event-ID`` goes on behind it.
    """
    lineage, after = _place(request, query)
    loop = asyncio.get_running_loop()
    seconds = min(query.wait, time_left(request.remaining_ms) / 1_000)
    until = loop.time() + seconds  # looking takes its time, too
    page = await _read(ports, session, lineage, after)
    for _ in range(round(seconds / POLL_SECONDS)):
        if page.frames or page.note is not None or loop.time() + POLL_SECONDS > until:
            break
        await ports.pause(POLL_SECONDS)
        page = await _read(ports, session, lineage, after)
    headers = {"cache-control": "no-store"}
    return Answer(200, stream(page), content_type=STREAM, headers=headers)


def stream(page: TranscriptPage) -> bytes:
    """Spell a page of a transcript as events, each in a few lines."""
    said = [b"retry: %d\n\n" % RETRY_MS]
    for frame in page.frames:
        name = f"id: {page.lineage}:{frame.seq}\nevent: {frame.type}\n".encode()
        said.append(b"%bdata: %b\n\n" % (name, canonical(asdict(frame))))
    if page.note is not None:
        said.append(
            b"event: %b\ndata: %b\n\n" % (page.note.code.encode(), canonical(asdict(page.note)))
        )
    if len(said) == 1:
        said.append(b": nothing yet\n\n")
    return b"".join(said)


async def _read(
    ports: SessionPorts, session: str, lineage: str | None, after: int
) -> TranscriptPage:
    return await ports.sessions.transcript(session, after=after, lineage=lineage)


def _place(request: Request, query: models.Events) -> tuple[str | None, int]:
    """Return which journal was read before, and up to where. Raises InvalidValue."""
    said = header(request.headers, LAST_EVENT_ID)
    if not said:
        return query.lineage, query.after
    found = _ID.fullmatch(said)
    if found is None:
        raise InvalidValue(expected="Last-Event-ID to be the id of an event", found=shown(said))
    return found[1], int(found[2])


ROUTES: Final[tuple[Route[Any], ...]] = (read_events,)
