"""Routes of worlds: create one, find them, tell what is known of one, follow its log."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict
from typing import Any, Final

from pydantic_core import to_json

from perdure.api import models
from perdure.api.deadlines import time_left
from perdure.api.decoding import cursor, resumed
from perdure.api.durations import pace_given
from perdure.api.gateway import REPLY_BYTES_MAX, Answer, Request
from perdure.api.ports import Api
from perdure.api.routing import Route, route
from perdure.kernel.log import LogEntry

LOG_REPLY_BYTES: Final = REPLY_BYTES_MAX - 500_000
"""Bytes at which a page of the log ends; a single entry that is larger loses its payload."""

POLL_SECONDS: Final = 0.25
"""Between two looks at a log that somebody waits for."""


@route("POST", "/v1/worlds", operation="create_world", reply=models.World, status=201)
async def create_world(api: Api, body: models.CreateWorld, request: Request) -> dict[str, Any]:
    """Create a world. The same id with the same identity changes nothing."""
    every_ms, missed = pace_given(body)
    info = await api.worlds.create(
        body.name,
        world_id=body.world_id,
        kind=body.kind,
        every_ms=every_ms,
        missed=missed,
        by=request.by,
    )
    return asdict(info)


@route("GET", "/v1/worlds", operation="discover_worlds", reply=models.Worlds)
async def list_worlds(api: Api, query: models.ListWorlds) -> dict[str, Any]:
    """List the worlds of the storage, by id; a page may be short though more follow."""
    after = resumed(query.next, scope="worlds")
    found, more = await api.worlds.discover(after, query.limit, show=query.show)
    page: dict[str, Any] = {"worlds": [asdict(info) for info in found]}
    return page if more is None else {**page, "next": cursor("worlds", more)}


@route("GET", "/v1/worlds/<world>", operation="get_world_info", reply=models.World)
async def describe_world(api: Api, world: str) -> dict[str, Any]:
    """Tell what is known of one world."""
    return asdict(await api.worlds.describe(world))


@route("GET", "/v1/worlds/<world>/log", operation="read_log", reply=models.LogPage)
async def read_log(api: Api, world: str, query: models.Log, request: Request) -> Answer:
    """Read the log behind ``after``; with ``wait``, wait so long for a first entry."""
    loop = asyncio.get_running_loop()
    seconds = min(query.wait, time_left(request.remaining_ms) / 1_000)
    until = loop.time() + seconds  # looking takes its time, too
    entries = await api.worlds.log(world, query.after, query.limit)
    for _ in range(round(seconds / POLL_SECONDS)):
        if entries or loop.time() + POLL_SECONDS > until:
            break
        await api.pause(POLL_SECONDS)
        entries = await api.worlds.log(world, query.after, query.limit)
    spelled: list[bytes] = []
    last, size = query.after, 0
    for entry in entries:
        text = _spelled(entry, payload=len(entry.payload) <= LOG_REPLY_BYTES)
        if spelled and size + len(text) > LOG_REPLY_BYTES:
            break
        spelled.append(text)
        last, size = entry.seq, size + len(text)
    return Answer(200, b'{"entries":[%b],"next":%d}' % (b",".join(spelled), last))


def _spelled(entry: LogEntry, *, payload: bool) -> bytes:
    # The payload is canonical JSON already: its very bytes are what the digest covers.
    members = {
        "seq": entry.seq,
        "at": entry.at,
        "kind": entry.kind,
        "facts": entry.facts,
        "digest": entry.digest,
        "previous": entry.previous,
        "payload_bytes": len(entry.payload),
    }
    content = entry.payload if payload else json.dumps(None).encode()
    return to_json(members)[:-1] + b',"payload":' + content + b"}"


ROUTES: Final[tuple[Route[Any], ...]] = (create_world, list_worlds, describe_world, read_log)
