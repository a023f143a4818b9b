"""The operations that lead from one JSON value to another: small where little has changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from perdure.kernel.canonical import canonical
from perdure.kernel.documents.ops import UNSAFE_SEGMENTS

Ops = list[list[Any]]


def difference(old: Any, new: Any) -> Ops:
    """Return operations that make ``new`` of ``old``; none if both are spelled alike.

    Both are JSON as it is read: what shares no list with them may be changed freely.
    """
    ops = _between(old, new, [])
    if len(canonical(ops)) > len(canonical([["r", new]])):
        return [["r", new]]
    return ops


def _between(old: Any, new: Any, path: list[Any]) -> Ops:
    if isinstance(old, dict) and isinstance(new, dict):
        ops = _between_objects(old, new, path)
        return _whole(new, path) if ops is None else ops
    if isinstance(old, list) and isinstance(new, list):
        return _between_lists(old, new, path)
    if type(old) is type(new) and old == new and (old != 0 or canonical(old) == canonical(new)):
        return []  # -0.0 is equal to 0.0, and another spelling
    if isinstance(old, str) and isinstance(new, str) and path:
        return _between_texts(old, new, path)
    return _whole(new, path)


def _whole(new: Any, path: list[Any]) -> Ops:
    return [["s", path, new]] if path else [["r", new]]


def _between_objects(old: dict[str, Any], new: dict[str, Any], path: list[Any]) -> Ops | None:
    """Return operations on the members, or None if one of them has a name that no path takes."""
    ops: Ops = []
    for name in sorted(old.keys() | new.keys()):
        place = [*path, name]
        if name not in new:
            more: Ops = [["d", place]]
        elif name not in old:
            more = [["s", place, new[name]]]
        else:
            more = _between(old[name], new[name], place)
        if more and name in UNSAFE_SEGMENTS:
            return None
        ops += more
    return ops


def _between_lists(old: list[Any], new: list[Any], path: list[Any]) -> Ops:
    olds, news = [canonical(each) for each in old], [canonical(each) for each in new]
    front = _common(olds, news)
    back = _common(olds[front:][::-1], news[front:][::-1])
    last, last_new = len(old) - back, len(new) - back
    if last - front != last_new - front:
        return [["p", path, front, last - front, new[front:last_new]]]
    ops: Ops = []
    for index in range(front, last):
        ops += _between(old[index], new[index], [*path, index])
    return ops


def _common(some: Sequence[Any], others: Sequence[Any]) -> int:
    """Return how many of their first items are the same."""
    count = 0
    for one, other in zip(some, others, strict=False):
        if one != other:
            break
        count += 1
    return count


def _between_texts(old: str, new: str, path: list[Any]) -> Ops:
    if old and new.startswith(old):
        return [["a", path, new[len(old) :]]]
    if new and old.endswith(new):
        cut = old[: len(old) - len(new)]
        return [["t", path, len(cut.encode("utf-16-le", "surrogatepass")) // 2]]
    return _whole(new, path)
