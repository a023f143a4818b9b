"""Operations that lead from one JSON value to another, as a delta spells them."""

from __future__ import annotations

from typing import Any

from perdure.kernel.canonical import canonical
from perdure.kernel.documents.ops import UNSAFE_SEGMENTS

Ops = list[list[Any]]
Path = list[str | int]


def ops_between(before: Any, after: Any) -> Ops:
    """Return operations that make ``after`` of ``before``: none if they are the same.

    A text that grew is appended to, and of a list only what differs in its middle is replaced.
    """
    if is_same(before, after):
        return []
    ops: Ops = []
    if not _compared(before, after, [], ops):
        return [["r", after]]
    return ops


def is_same(one: Any, other: Any) -> bool:
    """Say whether two values are spelled alike: 1, 1.0 and true are not."""
    return canonical(one) == canonical(other)


def _compared(before: Any, after: Any, path: Path, ops: Ops) -> bool:
    """Add what differs below a path; False if only another root can say it."""
    if isinstance(before, dict) and isinstance(after, dict):
        return _dicts(before, after, path, ops)
    if isinstance(before, list) and isinstance(after, list):
        return _lists(before, after, path, ops)
    if not path:
        return False
    if isinstance(before, str) and isinstance(after, str) and before and after.startswith(before):
        ops.append(["a", path, after[len(before) :]])
    else:
        ops.append(["s", path, after])
    return True


def _dicts(before: dict[str, Any], after: dict[str, Any], path: Path, ops: Ops) -> bool:
    for name in before:
        if name not in after:
            if name in UNSAFE_SEGMENTS:
                return False
            ops.append(["d", [*path, name]])
    for name, value in after.items():
        if name in before and is_same(before[name], value):
            continue
        if name in UNSAFE_SEGMENTS:
            return False
        if name not in before:
            ops.append(["s", [*path, name], value])
        elif not _compared(before[name], value, [*path, name], ops):
            return False
    return True


def _lists(before: list[Any], after: list[Any], path: Path, ops: Ops) -> bool:
    common = min(len(before), len(after))
    first = 0
    while first < common and is_same(before[first], after[first]):
        first += 1
    last = 0
    while last < common - first and is_same(before[-1 - last], after[-1 - last]):
        last += 1
    gone, come = len(before) - first - last, after[first : len(after) - last]
    if gone == len(come) == 1:
        return _compared(before[first], come[0], [*path, first], ops)
    ops.append(["p", path, first, gone, come])
    return True
