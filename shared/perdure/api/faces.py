"""Faces: which routes each function answers.

None of these modules needs Arrow to be imported: what they ask for comes through ports.
"""

from __future__ import annotations

from typing import Any, Final

from perdure.api import (
    routes_about,
    routes_capabilities,
    routes_commands,
    routes_consumers,
    routes_entities,
    routes_events,
    routes_fork,
    routes_history,
    routes_jobs,
    routes_land,
    routes_lifecycle,
    routes_sessions,
    routes_stores,
    routes_stores_follow,
    routes_tick,
    routes_trim,
    routes_verify,
    routes_worlds,
)
from perdure.api.routing import Route

API: Final[tuple[Route[Any], ...]] = (
    *routes_worlds.ROUTES,
    *routes_fork.ROUTES,
    *routes_commands.ROUTES,
    *routes_consumers.ROUTES,
    *routes_stores.ROUTES,
    *routes_stores_follow.ROUTES,
    *routes_about.ROUTES,
)
"""Without Arrow."""

QUERY: Final[tuple[Route[Any], ...]] = (*routes_entities.ROUTES, *routes_history.ROUTES)

TICK: Final[tuple[Route[Any], ...]] = (
    *routes_tick.ROUTES,
    *routes_capabilities.ROUTES,
    *routes_lifecycle.ROUTES,
    *routes_verify.ROUTES,
)

LAND: Final[tuple[Route[Any], ...]] = (*routes_land.ROUTES, *routes_trim.ROUTES)

LAKE: Final[tuple[Route[Any], ...]] = (*QUERY, *TICK, *LAND)
"""Everything that needs Arrow."""


SESSIONS: Final[tuple[Route[Any], ...]] = (*routes_sessions.ROUTES, *routes_events.ROUTES)
"""Everything that needs the agents of an application."""

JOBS: Final[tuple[Route[Any], ...]] = routes_jobs.ROUTES
"""Everything that needs the jobs of an application."""


def is_of(routes: tuple[Route[Any], ...], method: str, path: str) -> bool:
    """Say whether one of ``routes`` answers a request."""
    parts = path.split("/")
    return any(each.method == method and _matches(each.path.split("/"), parts) for each in routes)


def _matches(pattern: list[str], parts: list[str]) -> bool:
    return len(pattern) == len(parts) and all(
        wanted.startswith("<") or wanted == part
        for wanted, part in zip(pattern, parts, strict=True)
    )
