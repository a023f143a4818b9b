"""What a person is shown of a world."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from perdure.cli import show


def told(info: dict[str, Any], *, as_json: bool) -> None:
    """Print what is known of a world."""
    if as_json:
        show.as_json(info)
    else:
        show.facts({**info, "created_at": time_shown(info["created_at"])})


def time_shown(at_ms: int) -> str:
    """Spell a moment for people."""
    moment = datetime.fromtimestamp(at_ms / 1_000, UTC)
    return moment.isoformat(sep=" ", timespec="seconds")
