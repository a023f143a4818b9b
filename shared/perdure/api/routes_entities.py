"""Routes of entities: the rows of a world at a tick, or over many."""

from __future__ import annotations

import re
from typing import Any, Final

from perdure.api import models
from perdure.api.decoding import cursor, resumed
from perdure.api.gateway import Answer, Request
from perdure.api.ports import QueryPorts, RowsAsked
from perdure.api.routing import Route, route
from perdure.kernel import limits
from perdure.kernel.errors import InvalidValue, NotPublished
from perdure.kernel.ids import EntityId, Tick, WorldId
from perdure.kernel.shown import shown

STREAM: Final = "application/vnd.apache.arrow.stream"

NEXT: Final = "perdure-next"
TICK: Final = "perdure-tick"
"""Headers beside an Arrow stream, which has no room for what the JSON form says."""

_NUMBER: Final = re.compile(r"\d{1,19}", re.ASCII)
_PLACE: Final = re.compile(r"(\d{1,15}) (\d{1,15})", re.ASCII)


@route(
    "GET",
    "/v1/worlds/<world>/entities",
    operation="query_components",
    reply=models.Rows,
    also=(STREAM,),
)
async def read_entities(
    ports: QueryPorts, world: str, query: models.Entities, request: Request
) -> Answer:
    """Read rows: JSON, or an Arrow stream if the header Accept asks for one.

    What is published never changes, so a page is found again by its place.
    """
    scope = f"entities {world} {query.model_dump_json(exclude={'next', 'limit'})}"
    tick, first = _place(resumed(query.next, scope=scope))
    if tick is None:
        tick = await _read_at(ports, world, query)
    # One row more than is sent tells whether there is a page behind this one.
    asked = _asked(query, tick, first + query.limit + 1)
    table = await ports.rows.read(WorldId(world), asked)
    more = ports.rows.count(table) == asked.limit
    page = ports.rows.page(table, first, query.limit)
    following = cursor(scope, f"{asked.tick} {first + query.limit}") if more else None
    if STREAM in request.headers.get("accept", ""):
        headers = {TICK: str(asked.tick)} | ({} if following is None else {NEXT: following})
        return Answer(200, ports.rows.as_stream(page), content_type=STREAM, headers=headers)
    after = b"" if following is None else b',"next":"%b"' % following.encode()
    rows = ports.rows.as_json(page)
    return Answer(200, b'{"tick":%d,"rows":%b%b}' % (asked.tick, rows, after))


async def _read_at(ports: QueryPorts, world: str, query: models.Entities) -> Tick:
    """Return the tick asked for, or the published one."""
    wanted = query.tick if query.to_tick is None else query.to_tick
    if wanted is not None:
        return Tick(wanted)
    published = (await ports.worlds.describe(world)).published_tick
    if published is None:
        raise NotPublished(expected="a published tick", found=f"none in world {world!r} yet")
    return published


def _asked(query: models.Entities, tick: Tick, rows: int) -> RowsAsked:
    ranged = query.from_tick is not None or query.to_tick is not None
    if ranged and query.tick is not None:
        raise InvalidValue(
            expected="query: `tick`, or `from_tick` and `to_tick`", found="all together"
        )
    first = query.from_tick or 0
    if ranged and first > tick:
        raise InvalidValue(expected=f"query.from_tick: at most {tick}", found=str(first))
    components = tuple(name.strip() for name in query.components.split(","))
    if not all(components):
        raise InvalidValue(
            expected="query.components: names separated by commas", found=shown(query.components)
        )
    return RowsAsked(
        components=components,
        tick=tick,
        ticks=range(first, tick + 1) if ranged else None,
        entity_ids=None if query.entity_id is None else _entity_ids(query.entity_id),
        where=query.where,
        limit=rows,
    )


def _entity_ids(text: str) -> tuple[EntityId, ...]:
    numbers = [part.strip() for part in text.split(",")]
    for each in numbers:
        if not _NUMBER.fullmatch(each) or int(each) > limits.INTEGER_MAX:
            raise InvalidValue(
                expected="query.entity_id: integers of 64 bits separated by commas",
                found=shown(each),
            )
    return tuple(EntityId(int(each)) for each in numbers)


def _place(resumed_at: str | None) -> tuple[Tick | None, int]:
    """Return the tick and the number of rows before a page."""
    if resumed_at is None:
        return None, 0
    place = _PLACE.fullmatch(resumed_at)
    if place is None:
        raise InvalidValue(expected="the `next` of an earlier reply", found=shown(resumed_at))
    return Tick(int(place[1])), int(place[2])


ROUTES: Final[tuple[Route[Any], ...]] = (read_entities,)
