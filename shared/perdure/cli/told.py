"""What people are told of a world, whichever command found it out."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from perdure.cli import show

_MOMENTS: Final = ("created_at", "fence_held_until")


def told(info: Mapping[str, Any], *, as_json: bool) -> None:
    """Print what is known of a world."""
    if as_json:
        show.as_json(info)
        return
    moments = {name: moment(info[name]) for name in _MOMENTS if info.get(name) is not None}
    show.facts({**info, **moments})


def moment(at_ms: int) -> str:
    """Spell milliseconds since 1970 for people; as they are, behind the last year of a calendar."""
    try:
        found = datetime.fromtimestamp(at_ms / 1_000, UTC)
    except (OverflowError, ValueError, OSError):
        return str(at_ms)
    return found.isoformat(sep=" ", timespec="seconds")
