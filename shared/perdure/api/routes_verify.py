"""Routes of verification: read a world's whole record again, and do its ticks again."""

from __future__ import annotations

from typing import Any, Final

from perdure.api import models_verify
from perdure.api.deadlines import time_left
from perdure.api.gateway import Request
from perdure.api.ports_keeping import VerifyPorts
from perdure.api.routing import Route, route


@route(
    "POST",
    "/v1/worlds/<world>/verify",
    operation="verify_world",
    reply=models_verify.Verified,
)
async def verify_world(
    ports: VerifyPorts, world: str, body: models_verify.VerifyWorld, request: Request
) -> dict[str, Any]:
    """Verify a world, as many ticks as there is time for.

    Its log, manifests, rows and checkpoints are read again, and each tick is computed again
    and compared. Nothing is changed. Go on from ``next_tick`` until there is none.
    """
    verified = await ports.verify(
        world,
        from_tick=body.from_tick,
        to_tick=body.to_tick,
        ms=time_left(request.remaining_ms),
    )
    return {
        "checked_ticks": verified.checked_ticks,
        "next_tick": verified.next_tick,
        "findings": [
            {
                "kind": finding.kind,
                "where": finding.where,
                "expected": finding.expected,
                "found": finding.found,
            }
            for finding in verified.findings
        ],
    }


ROUTES: Final[tuple[Route[Any], ...]] = (verify_world,)
