"""What happened in a play, line by line; put into words only if somebody reads it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from perdure.kernel.commit import Check, Commit, Put
from perdure.kernel.view import Reads


@dataclass(slots=True)
class Trace:
    """Lines with the step and the second they belong to."""

    moment: Callable[[], tuple[int, float]]
    lines: list[tuple[int, float, str, str, tuple[Any, ...]]] = field(default_factory=list)

    def tell(self, who: str, what: str, *details: Any) -> None:
        """Add a line. ``what`` has a place for each detail."""
        self.lines.append((*self.moment(), who, what, details))

    def text(self) -> list[str]:
        """Put the lines into words."""
        return [
            f"{step:6} {seconds:10.3f}s {who:14} {what.format(*map(_word, details))}"
            for step, seconds, who, what, details in self.lines
        ]


def _word(detail: Any) -> str:
    match detail:
        case None:
            return ""
        case Commit():
            return f"{detail.token} ({', '.join(map(_action, detail.actions))})"
        case Reads():
            named = [key.sort for key in (*detail.keys, *detail.peeks)]
            ranges = [f"{wanted.first}…" for wanted in detail.ranges]
            return f"{', '.join((*named, *ranges))}{' as a snapshot' if detail.snapshot else ''}"
        case BaseException():
            return f"{type(detail).__name__}: {detail}"
        case _:
            return str(detail)


def _action(action: Any) -> str:
    sort = action.key.sort
    match action:
        case Put():
            return sort
        case Check():
            return f"?{sort}"
        case _:
            return f"-{sort}"
