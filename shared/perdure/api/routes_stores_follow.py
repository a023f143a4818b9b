"""The route that follows a document of a store, as server-sent events."""

from __future__ import annotations

import asyncio
import re
from typing import Any, Final

from perdure.api import models_stores_follow as models
from perdure.api.deadlines import time_left
from perdure.api.decoding import header
from perdure.api.gateway import Answer, Request
from perdure.api.ports import Api
from perdure.api.routes_events import LAST_EVENT_ID, POLL_SECONDS, RETRY_MS, STREAM
from perdure.api.routing import Route, route
from perdure.kernel.canonical import canonical
from perdure.kernel.documents.called import check_address
from perdure.kernel.documents.places import SAFE_INTEGER_MAX, Address
from perdure.kernel.errors import InvalidValue
from perdure.kernel.ids import Lineage, Seq
from perdure.kernel.shown import shown
from perdure.runtime.documents.follow.page import FollowPage, FollowPlace, followed_page

_ID: Final = re.compile(r"([A-Za-z0-9_-]{1,64}):(\d{1,16}):(\d{1,16})", re.ASCII)


@route(
    "GET",
    "/v1/stores/<store>/follow",
    operation="read_documents",
    reply=None,
    also=(STREAM,),
)
async def follow_document(ports: Api, store: str, query: models.Follow, request: Request) -> Answer:
    """Follow the document at an address: what it is, then each commit that changes it, its end.

    An event `snapshot` has it whole, and comes first, or when the log has lost what would follow;
    `change` has operations on it; `retired` is the end. With ``wait``, wait so long for a first
    event. An event's id is ``lineage:seq:document``; a client that sends it back as the header
    ``Last-Event-ID`` goes on behind it.
    """
    address = Address(query.owner, query.namespace, query.kind, query.key)
    check_address(address)
    place = _place(header(request.headers, LAST_EVENT_ID) or query.after)
    means, ref = ports.stores.means, ports.stores.ref(store)
    loop = asyncio.get_running_loop()
    seconds = min(query.wait, time_left(request.remaining_ms) / 1_000)
    until = loop.time() + seconds  # looking takes its time, too
    page = await followed_page(means, ref, address, place)
    for _ in range(round(seconds / POLL_SECONDS)):
        if page.told or loop.time() + POLL_SECONDS > until:
            break
        await ports.pause(POLL_SECONDS)
        page = await followed_page(means, ref, address, page.place)
    headers = {"cache-control": "no-store"}
    return Answer(200, stream(page, place), content_type=STREAM, headers=headers)


def stream(page: FollowPage, before: FollowPlace | None) -> bytes:
    """Spell a page as events. Without one, whoever asks is told from where to go on."""
    said = [b"retry: %d\n\n" % RETRY_MS]
    for told in page.told:
        # The end has no id: who asks behind it is told the end again.
        name = "" if told.kind == "retired" else f"id: {_spelled(told.place)}\n"
        named = f"{name}event: {told.kind}\n".encode()
        said.append(b"%bdata: %b\n\n" % (named, canonical(told.data)))
    if not page.told or page.told[-1].place != page.place:
        said.append(f"id: {_spelled(page.place)}\n\n".encode())
    if not page.told and page.place == before:
        said[1:] = [b": nothing yet\n\n"]
    return b"".join(said)


def _spelled(place: FollowPlace) -> str:
    return f"{place.lineage}:{place.seq}:{place.document}"


def _place(said: str | None) -> FollowPlace | None:
    """Return the place that an event's id says. Raises InvalidValue."""
    if not said:
        return None
    found = _ID.fullmatch(said)
    if found is None or max(int(found[2]), int(found[3])) > SAFE_INTEGER_MAX:
        raise InvalidValue(expected="the id of an event to go on behind", found=shown(said))
    return FollowPlace(Lineage(found[1]), Seq(int(found[2])), int(found[3]))


ROUTES: Final[tuple[Route[Any], ...]] = (follow_document,)
