"""Routes of trimming: let go of what landed, was read by all and is old."""

from __future__ import annotations

from typing import Any, Final

from perdure.api import models_trim
from perdure.api.deadlines import time_left
from perdure.api.durations import milliseconds
from perdure.api.gateway import Request
from perdure.api.ports_keeping import TrimPorts
from perdure.api.routing import Route, route


@route("POST", "/v1/trim", operation="trim", reply=models_trim.Trimmed)
async def trim(ports: TrimPorts, body: models_trim.Trim, request: Request) -> dict[str, Any]:
    """Trim every world, as many as there is time for.

    Segments that have landed go, checkpoints are thinned, old log entries move to archives,
    and objects that nothing names are removed. Every published tick stays readable.
    """
    pruned = await ports.trim_all(
        grace_ms=milliseconds(body.grace),
        dry_run=body.dry_run,
        after=body.after,
        ms=time_left(request.remaining_ms),
        by=request.by,
    )
    done = pruned.trimmed
    return {
        "segments": done.segments,
        "checkpoints": done.checkpoints,
        "orphans": done.orphans,
        "bytes": done.bytes,
        "undecided": done.undecided,
        "archived": done.archived,
        "worlds": pruned.worlds,
        "next": pruned.next,
    }


ROUTES: Final[tuple[Route[Any], ...]] = (trim,)
