"""Server-sent events over one connection: a function is asked again and again until somebody goes.

API Gateway answers once, and an `EventSource` asks again by itself, with the id of the last event.
Here the front does that for it: the function gets the same requests, and is free in between.
"""

from __future__ import annotations

import asyncio
import re
import urllib.parse
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, Final

from perdure_emulator.replies import STATUS, header_lines, raw

Reply = Mapping[str, Any]
Again = Callable[[bytes | None], Awaitable[dict[str, Any]]]
"""Asks for what follows an event; None is the beginning of what the client asked for."""

STREAM: Final = "text/event-stream"
LAST_EVENT_ID: Final = "last-event-id"

WAIT_SECONDS: Final = 2
"""How long one request waits for an event. Source: choice; so long a stream holds a function."""

PAUSE_SECONDS: Final = 1.0
"""Until a function is asked again that could not answer."""

BEAT: Final = b": nothing yet\n\n"
"""A comment: what lies between sees that the connection lives."""

_ID: Final = re.compile(rb"^id: ?(.+)$", re.MULTILINE)
_DATA: Final = re.compile(rb"^data:", re.MULTILINE)
_RETRY: Final = re.compile(rb"^retry:.*\n\n", re.MULTILINE)


def wants(method: str, headers: Mapping[str, str]) -> bool:
    """Say whether somebody asks as an `EventSource` does; any other gets one answer, with an end."""
    named = [each.partition(";")[0].strip() for each in headers.get("accept", "").split(",")]
    return method == "GET" and named == [STREAM]


def is_one(reply: Reply) -> bool:
    """Say whether a reply is the beginning of a stream."""
    kinds = [each for name, each in reply["headers"].items() if name.lower() == "content-type"]
    return reply[STATUS] == 200 and bool(kinds) and str(kinds[0]).startswith(STREAM)


def asking(
    query: str, headers: Mapping[str, str], last: bytes | None
) -> tuple[str, dict[str, str]]:
    """Return query and headers that ask for what follows an event, or begin with a first look."""
    said = urllib.parse.parse_qsl(query, keep_blank_values=True)
    kept = [pair for pair in said if pair[0] != "wait"]
    if last is None:
        return urllib.parse.urlencode(kept), dict(headers)
    wait = urllib.parse.urlencode([*kept, ("wait", str(WAIT_SECONDS))])
    # Nothing has happened yet: the client's own place is still right.
    place = {LAST_EVENT_ID: last.decode("latin-1")} if last else {}
    return wait, {**headers, **place}


async def follow(
    first: Reply,
    again: Again,
    receive: Callable[[], Awaitable[MutableMapping[str, Any]]],
    send: Callable[[MutableMapping[str, Any]], Awaitable[None]],
    stopping: asyncio.Event,
) -> None:
    """Send a stream that began until the client goes, the server stops, or it is at its end."""
    headers = header_lines(first)
    await send({"type": "http.response.start", "status": first[STATUS], "headers": headers})
    leaving = {asyncio.create_task(_gone(receive)), asyncio.create_task(stopping.wait())}
    reply: Reply | None = first
    last = b""
    try:
        while reply is not None:
            said = raw(reply)
            body = said if reply is first else _RETRY.sub(b"", said)
            await send({"type": "http.response.body", "body": body, "more_body": True})
            ids = _ID.findall(said)
            if _DATA.search(said) and not ids:
                break  # it says why there is nothing more
            last = ids[-1] if ids else last
            reply = await _next(again, last, leaving, send)
    finally:
        for each in leaving:
            each.cancel()
        await asyncio.wait(leaving)
    await send({"type": "http.response.body", "body": b""})


async def _next(
    again: Again,
    last: bytes,
    leaving: set[asyncio.Task[Any]],
    send: Callable[[MutableMapping[str, Any]], Awaitable[None]],
) -> Reply | None:
    """Return what follows; None if somebody goes, or there is no more."""
    while True:
        reply = await _unless(leaving, again(last))
        if reply is None or is_one(reply):
            return reply
        if reply[STATUS] not in {429, 500, 502, 503, 504}:
            return None  # the client asks again by itself, and is told what is wrong
        await send({"type": "http.response.body", "body": BEAT, "more_body": True})
        if await _unless(leaving, _paused()) is None:
            return None


async def _unless(leaving: set[asyncio.Task[Any]], work: Awaitable[Reply]) -> Reply | None:
    """Return what work comes to; None if somebody goes, and then it is given up."""
    doing = asyncio.ensure_future(work)
    try:
        await asyncio.wait({doing, *leaving}, return_when=asyncio.FIRST_COMPLETED)
        if any(each.done() for each in leaving):
            return None
        return doing.result()
    finally:
        if not doing.done():
            doing.cancel()
            await asyncio.wait({doing})


async def _paused() -> Reply:
    await asyncio.sleep(PAUSE_SECONDS)
    return {}


async def _gone(receive: Callable[[], Awaitable[MutableMapping[str, Any]]]) -> None:
    """Wait until the client has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass
