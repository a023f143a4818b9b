"""Values of plain components, checked by the column."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from operator import itemgetter
from types import NoneType
from typing import Any

from perdure.kernel import limits
from perdure.kernel.plain import PlainField


def plain_columns(
    fields: Sequence[PlainField], stored: Sequence[Any]
) -> dict[str, list[Any]] | None:
    """Return values by field if they are what a plain class decodes, spelled as it encodes them."""
    if set(map(type, stored)) != {dict} or set(map(len, stored)) != {len(fields)}:
        return None
    columns: dict[str, list[Any]] = {}
    for field in fields:
        try:
            columns[field.name] = list(map(itemgetter(field.name), stored))
        except KeyError:
            return None
        if not _fits(field, columns[field.name]):
            return None
    return columns


def fit_column(kind: type, values: list[Any]) -> bool:
    """Say whether values of one type can be held by its column."""
    if kind is int:
        return not values or bool(
            min(values) >= limits.INTEGER_MIN and max(values) <= limits.INTEGER_MAX
        )
    return kind is not str or _encodes(values)


def _fits(field: PlainField, values: list[Any]) -> bool:
    kinds = set(map(type, values))
    if NoneType in kinds:
        if not field.is_nullable:
            return False
        kinds.discard(NoneType)
        values = [each for each in values if each is not None]
    if kinds - {field.kind}:
        return False
    if field.kind is float:
        # A sum is finite only if all of it is; that it is not may be an overflow.
        return isfinite(sum(values)) or all(map(isfinite, values))
    return fit_column(field.kind, values)


def _encodes(texts: list[str]) -> bool:
    """Say whether texts fit a column: a lone surrogate is JSON, but no UTF-8."""
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        return False
    return True
