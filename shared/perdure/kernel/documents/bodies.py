"""Bodies of records that pydantic cannot read: a lone half of a pair is no text to it."""

from __future__ import annotations

from typing import Any

from perdure.kernel.canonical import strict
from perdure.kernel.errors import Corrupt
from perdure.kernel.ids import Partition


def object_in(body: bytes, what: str) -> dict[str, Any]:
    """Return the JSON object that a body spells. Raises Corrupt."""
    return dict(json_in(body, what, dict))


def json_in(body: bytes, what: str, kind: type) -> Any:
    """Return the JSON of one kind that a body spells. Raises Corrupt."""
    try:
        found = strict(body)
    except ValueError as error:
        raise Corrupt(expected=what, found=str(error)) from error
    if type(found) is not kind:
        raise Corrupt(expected=what, found=repr(body[:60]))
    return found


def typed(value: Any, kind: type) -> Any:
    """Return a value of one kind. Raises TypeError."""
    if not isinstance(value, kind) or isinstance(value, bool):
        raise TypeError(f"{type(value).__name__} where {kind.__name__} must be")
    return value


def fields_in(
    of: type, partition: Partition, sort: str, body: bytes, kinds: dict[str, tuple[type, ...]]
) -> dict[str, Any]:
    """Return the fields of a record, just these, each of its kind. Raises Corrupt."""
    told = object_in(body, f"a {of.__name__} at {partition} {sort}")
    wrong = [name for name, kind in kinds.items() if not isinstance(told.get(name), kind)]
    if wrong or told.keys() != kinds.keys():
        found = ", ".join(wrong) or ", ".join(sorted(told.keys() ^ kinds.keys()))
        raise Corrupt(expected=f"a {of.__name__} at {partition} {sort}", found=f"wrong: {found}")
    return told
