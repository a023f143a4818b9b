"""`perdure world fork --to-root`: from one local directory to another, in this process."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from pathlib import Path
from typing import Any

from perdure.api.settings import Settings, local
from perdure.api.wiring import existing
from perdure.api.wiring_python import opened
from perdure.runtime.app import App, load_app
from perdure.runtime.fork_elsewhere import fork_elsewhere


def forked(
    root: Path, to_root: Path, app: str | None, source: str, wish: dict[str, Any]
) -> dict[str, Any]:
    """Fork a world to another local storage, which is made if it is not there."""
    chosen = local(root, app=app)
    loaded = load_app(chosen.app)
    return asyncio.run(_forked(existing(chosen), local(to_root, app=app), loaded, source, wish))


async def _forked(
    here: Settings, there: Settings, app: App, source: str, wish: dict[str, Any]
) -> dict[str, Any]:
    async with (
        opened(here.uri, app=app, namespace=here.namespace) as origin,
        opened(there.uri, app=app, namespace=there.namespace) as destination,
    ):
        asked = destination.worlds.wish(
            origin.worlds.ref(source),
            wish["name"],
            wish.get("world_id"),
            pending=wish["pending"],
            at_tick=wish.get("at_tick"),
            every_ms=wish.get("every_ms"),
            missed=wish.get("missed", "coalesce"),
        )
        info = await fork_elsewhere(origin.ticker.means, destination.ticker.means, asked)
        return asdict(info)
