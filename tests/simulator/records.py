"""Records read without the code that wrote them: JSON behind one byte, ranges, command groups."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable
from typing import Any

Json = dict[str, Any]


class Violation(BaseException):
    """An invariant was broken: which one, and what shows it. Code under test cannot catch it."""

    def __init__(self, invariant: str, detail: str) -> None:
        super().__init__(f"{invariant}: {detail}")
        self.invariant = invariant


def decoded(packed: bytes) -> Any:
    """Return what the packed body of a record says."""
    kind, body = packed[:1], packed[1:]
    if kind == b"\x01":
        body = zlib.decompress(body, -15)
    elif kind != b"\x00":
        raise AssertionError(f"a play keeps its bodies small; found one of kind {kind!r}")
    return json.loads(body)


def members(ranges: Iterable[Iterable[int]]) -> list[int]:
    """Spell ranges out."""
    return [each for first, last in ranges for each in range(first, last + 1)]


def due_of(command: Json, published: int) -> tuple[int, int]:
    """Return the tick and priority at which a command is due that was admitted behind ``published``."""
    asked = command.get("tick")
    tick = published + 1 if asked is None or asked <= published else asked
    return tick, command.get("priority") or 0


def groups_of(commands: list[Json], first: int, published: int) -> list[list[int]]:
    """Return the sequences of each group of a batch: those due together, as they first appear."""
    groups: dict[tuple[int, int], list[int]] = {}
    for sequence, command in enumerate(commands, first):
        groups.setdefault(due_of(command, published), []).append(sequence)
    return list(groups.values())


def page_place(sort: str) -> tuple[int, int]:
    """Return the tick and priority in the name of a page."""
    _, tick, offset, _ = sort.split("/")
    return int(tick), int(offset) - (2**31 - 1)


def expect(held: object, invariant: str, detail: str, *found: object) -> None:
    """Raise Violation unless something holds. ``detail`` has a place for each of ``found``."""
    if not held:
        raise Violation(invariant, detail.format(*found))
