"""Routes of history: what happened in a world, filtered and paged."""

from __future__ import annotations

import re
from typing import Any, Final

from perdure.api import models_consumers as models
from perdure.api.decoding import cursor, resumed
from perdure.api.ports import EventsAsked, HistoryPorts
from perdure.api.routing import Route, route
from perdure.kernel.errors import InvalidValue
from perdure.kernel.events import KINDS
from perdure.kernel.shown import shown

_PLACE: Final = re.compile(r"(\d{1,19}) (\d{1,19})", re.ASCII)


@route(
    "GET",
    "/v1/worlds/<world>/history",
    operation="get_audit_history",
    reply=models.HistoryPage,
)
async def read_history(ports: HistoryPorts, world: str, query: models.History) -> dict[str, Any]:
    """Read the events of a world in the order of its log, as far as they are projected."""
    scope = f"history {world} {query.model_dump_json(exclude={'next', 'limit'})}"
    after = _place(resumed(query.next, scope=scope))
    page = await ports.history(world, _asked(query, after))
    told: dict[str, Any] = {
        "events": list(page.events),
        "through_seq": page.through_seq,
        "head_seq": page.head_seq,
    }
    if page.next is not None:
        told["next"] = cursor(scope, "{} {}".format(*page.next))
    return told


def _asked(query: models.History, after: tuple[int, int] | None) -> EventsAsked:
    filters = query.model_dump(exclude={"kind", "next", "limit", "from_seq", "to_seq"})
    return EventsAsked(
        filters={**filters, "kinds": None if query.kind is None else _kinds(query.kind)},
        from_seq=query.from_seq,
        to_seq=query.to_seq,
        after=(0, -1) if after is None else after,
        limit=query.limit,
    )


def _kinds(text: str) -> tuple[str, ...]:
    kinds = tuple(part.strip() for part in text.split(","))
    unknown = next((each for each in kinds if each not in KINDS), None)
    if unknown is not None:
        raise InvalidValue(
            expected=f"query.kind: some of {', '.join(KINDS)}, separated by commas",
            found=shown(unknown),
        )
    return kinds


def _place(resumed_at: str | None) -> tuple[int, int] | None:
    """Return the (seq, index) behind which a page begins."""
    if resumed_at is None:
        return None
    place = _PLACE.fullmatch(resumed_at)
    if place is None:
        raise InvalidValue(expected="the `next` of an earlier reply", found=shown(resumed_at))
    return int(place[1]), int(place[2])


ROUTES: Final[tuple[Route[Any], ...]] = (read_history,)
