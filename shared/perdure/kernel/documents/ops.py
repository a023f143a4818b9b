"""Operations of a delta: small edits of a JSON value, as the chord delta format spells them.

``["r", value]`` replaces all; ``["s", path, value]`` sets; ``["d", path]`` deletes; ``["a", path,
text]`` appends to a text; ``["t", path, count]`` takes ``count`` UTF-16 units from the front of a
text; ``["p", path, index, remove, items]`` splices a list; ``["m", path, order]`` reorders a list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from perdure.kernel.documents.errors import DeltaDoesNotApply, InvalidDelta
from perdure.kernel.shown import shown, text_of

UNSAFE_SEGMENTS: Final = frozenset({"__proto__", "constructor", "prototype"})
"""Names that reach behind an object in the language of the format's first readers."""

_ARITIES: Final = {"r": 2, "s": 3, "d": 2, "a": 3, "t": 3, "p": 5, "m": 3}


def check_ops(ops: Any) -> None:
    """Refuse operations that no value could take. Raises InvalidDelta."""
    if not isinstance(ops, list):
        raise _malformed("a list of operations", ops)
    for op in ops:
        if not isinstance(op, list) or not op or _arity(op[0]) is None:
            raise _malformed("an operation of 'r', 's', 'd', 'a', 't', 'p' or 'm'", op)
        if len(op) != _arity(op[0]):
            raise _malformed(f"{_arity(op[0])} parts in {op[0]!r}", op)
        if op[0] != "r":
            _check_path(op[1], may_be_root=op[0] in ("p", "m"))
        if op[0] in _CHECKS:
            _CHECKS[op[0]](op)


def applied(value: Any, batches: Iterable[Sequence[Any]]) -> Any:
    """Return ``value`` after batches of checked operations; ``value`` itself is not changed.

    Raises: DeltaDoesNotApply.
    """
    return applied_to_own(detached(value), batches)


def applied_to_own(value: Any, batches: Iterable[Sequence[Any]]) -> Any:
    """Return what :func:`applied` does, of a value that nobody else has: it is used up.

    Raises: DeltaDoesNotApply.
    """
    for ops in batches:
        for op in ops:
            try:
                value = _apply(value, op)
            except (KeyError, IndexError, TypeError, ValueError) as error:
                raise DeltaDoesNotApply(
                    expected=f"a value that takes {shown(op)}", found=text_of(error)
                ) from error
    return value


def patched(value: Any, ops: Iterable[Sequence[Any]]) -> Any:
    """Return ``value`` after checked operations; it shares with ``value`` all that they leave.

    Raises: DeltaDoesNotApply.
    """
    for op in ops:
        value = applied_to_own(_opened(value, op), [[op]])
    return value


def _opened(value: Any, op: Sequence[Any]) -> Any:
    """Return ``value`` with lists and objects of its own wherever an operation writes."""
    if op[0] == "r":
        return value
    opened = node = _shallow(value)
    for segment in op[1] if op[0] in ("p", "m") else op[1][:-1]:
        try:
            inner = _shallow(node[segment])
            node[segment] = inner
        except (KeyError, IndexError, TypeError):
            break  # it does not apply, which is found when it is applied
        node = inner
    return opened


def _shallow(value: Any) -> Any:
    if isinstance(value, dict):
        return dict(value)
    return list(value) if isinstance(value, list | tuple) else value


def detached(value: Any) -> Any:
    """Return a copy of a JSON value that shares no list and no object with it."""
    if isinstance(value, dict):
        return {
            name: each if type(each) in _PLAIN else detached(each) for name, each in value.items()
        }
    if isinstance(value, _LISTS):
        return [each if type(each) in _PLAIN else detached(each) for each in value]
    return value


_PLAIN: Final = frozenset({str, int, float, bool, type(None)})
"""Most of a value: nothing of these is anybody's own."""

_LISTS: Final = (list, tuple)


def owned(value: Any) -> Any:
    """Return what :func:`detached` does; what is nested beyond that is left to be refused."""
    try:
        return detached(value)
    except RecursionError:
        return value


def reach_of(op: Sequence[Any]) -> int:
    """Return how many levels of lists and objects a value has at least, where ``op`` has written."""
    if op[0] == "r":
        return depth_of(op[1])
    written = op[-1] if op[0] in ("s", "p") else None
    return len(op[1]) + depth_of(written)


def depth_of(value: Any) -> int:
    """Return how many levels of lists and objects a JSON value has."""
    level, depth = [value], 0
    while level := [each for each in level if isinstance(each, dict | list | tuple)]:
        depth += 1
        level = [
            inner for each in level for inner in (each.values() if isinstance(each, dict) else each)
        ]
    return depth


def _arity(name: Any) -> int | None:
    return _ARITIES.get(name) if isinstance(name, str) else None


def _apply(root: Any, op: Sequence[Any]) -> Any:
    kind = op[0]
    if kind == "r":
        return detached(op[1])
    path = op[1]
    if kind in ("p", "m"):
        items = _list_at(root, path)
        if kind == "p":
            items[op[2] : op[2] + op[3]] = detached(op[4])
        else:
            if len(items) != len(op[2]):
                raise ValueError(f"a list of {len(items)}")
            items[:] = [items[source] for source in op[2]]
        return root
    parent, last = _resolved(root, path[:-1]), path[-1]
    if isinstance(parent, list):
        _check_index(parent, last, may_append=kind == "s")
    elif not isinstance(parent, dict) or not isinstance(last, str):
        raise TypeError(f"no {last!r} in {type(parent).__name__}")
    _EDITS[kind](parent, last, op)
    return root


def _set(parent: Any, last: Any, op: Sequence[Any]) -> None:
    value = detached(op[2])
    if isinstance(parent, list) and last == len(parent):
        parent.append(value)
    else:
        parent[last] = value


def _delete(parent: Any, last: Any, _op: Sequence[Any]) -> None:
    if isinstance(parent, list):
        del parent[last]
    else:
        parent.pop(last, None)


def _append(parent: Any, last: Any, op: Sequence[Any]) -> None:
    parent[last] = joined(_text(parent[last]), op[2])


def _cut(parent: Any, last: Any, op: Sequence[Any]) -> None:
    parent[last] = without_front(_text(parent[last]), op[2])


_EDITS: Final[dict[str, Callable[[Any, Any, Sequence[Any]], None]]] = {
    "s": _set,
    "d": _delete,
    "a": _append,
    "t": _cut,
}


def without_front(text: str, units: int) -> str:
    """Return ``text`` without its first UTF-16 units; half of a pair leaves the other half."""
    if text.isascii():
        return text[units:]
    encoded = text.encode("utf-16-le", "surrogatepass")
    return encoded[2 * units :].decode("utf-16-le", "surrogatepass")


def joined(text: str, more: str) -> str:
    """Return both texts in one; two halves of a pair that meet are one character."""
    if text and more and is_high(text[-1]) and is_low(more[0]):
        met = (text[-1] + more[0]).encode("utf-16-le", "surrogatepass").decode("utf-16-le")
        return text[:-1] + met + more[1:]
    return text + more


def is_high(character: str) -> bool:
    """Say whether it is the first half of a pair, without its second."""
    return "\ud800" <= character <= "\udbff"


def is_low(character: str) -> bool:
    """Say whether it is the second half of a pair, without its first."""
    return "\udc00" <= character <= "\udfff"


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{type(value).__name__} where a text must be")
    return value


def _resolved(root: Any, path: Sequence[Any]) -> Any:
    value = root
    for segment in path:
        if isinstance(value, list):
            _check_index(value, segment)
        elif not isinstance(value, dict):
            raise TypeError(f"no {segment!r} in {type(value).__name__}")
        value = value[segment]
    return value


def _list_at(root: Any, path: Sequence[Any]) -> list[Any]:
    found = _resolved(root, path)
    if not isinstance(found, list):
        raise TypeError(f"{type(found).__name__} where a list must be")
    return found


def _check_index(items: list[Any], index: Any, *, may_append: bool = False) -> None:
    if not isinstance(index, int) or index >= len(items) + may_append:
        raise IndexError(f"no place {index!r} in a list of {len(items)}")


def _check_path(path: Any, *, may_be_root: bool) -> None:
    if not isinstance(path, list) or not (path or may_be_root):
        raise _malformed("a path", path)
    for segment in path:
        named = isinstance(segment, str) and segment not in UNSAFE_SEGMENTS
        if not (named or _is_count(segment)):
            raise _malformed("a path of names and places", path)


def _check_text(op: list[Any]) -> None:
    if not isinstance(op[2], str):
        raise _malformed("a text to append", op)


def _check_count(op: list[Any]) -> None:
    if not _is_count(op[2]):
        raise _malformed("a count of UTF-16 units", op)


def _check_splice(op: list[Any]) -> None:
    if not (_is_count(op[2]) and _is_count(op[3]) and isinstance(op[4], list)):
        raise _malformed("a place, a count and a list of items", op)


def _check_order(op: list[Any]) -> None:
    order = op[2]
    if not isinstance(order, list) or not all(map(_is_count, order)):
        raise _malformed("a list of places", op)
    if sorted(order) != list(range(len(order))):
        raise _malformed("each place once", op)


_CHECKS: Final[dict[str, Callable[[list[Any]], None]]] = {
    "a": _check_text,
    "t": _check_count,
    "p": _check_splice,
    "m": _check_order,
}


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _malformed(expected: str, found: Any) -> InvalidDelta:
    return InvalidDelta(expected=expected, found=shown(found))
