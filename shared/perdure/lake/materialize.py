"""Materialization: stored component values must be exactly what their registered class says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from types import NoneType
from typing import Any, Final

from pydantic import TypeAdapter

from perdure.kernel import limits
from perdure.kernel.canonical import canonical
from perdure.kernel.component import Component, checked_value
from perdure.kernel.errors import InvalidValue

_EXACT: Final[Mapping[str, type]] = {"int64": int, "float64": float, "bool": bool, "string": str}


def failures(model: type[Component], stored: Sequence[Any]) -> dict[int, Exception]:
    """Return, by index, why stored values are not values of ``model``; empty when all are.

    A value must decode to the class and encode back to the very same bytes. All are tried at
    once; only if that fails, one by one. What a class's own validator raises is returned as it
    is, unless it is a BaseException only.
    """
    try:
        decoded = _many(model).validate_python(stored)
    except Exception:  # noqa: BLE001  # each value is asked again by itself, and gives its reason
        return _each(model, stored)
    values = [each.__dict__ for each in decoded]
    return {} if _same(model, stored, values) else _each(model, stored)


@cache
def _many(model: type[Component]) -> TypeAdapter[list[Component]]:
    return TypeAdapter(list[model])  # type: ignore[valid-type]  # a class made at run time


def _each(model: type[Component], stored: Sequence[Any]) -> dict[int, Exception]:
    found = ((index, _failure(model, value)) for index, value in enumerate(stored))
    return {index: error for index, error in found if error is not None}


def _failure(model: type[Component], stored: Any) -> Exception | None:
    try:
        value = checked_value(model, stored)
        if _same(model, [stored], [value]):
            return None
        return InvalidValue(
            expected=f"{model.__name__} as {canonical(value).decode()}",
            found=canonical(stored).decode(),
        )
    except Exception as error:  # noqa: BLE001  # returned: its kind decides the command's fate
        return error


def _same(
    model: type[Component], stored: Sequence[Any], values: Sequence[Mapping[str, Any]]
) -> bool:
    """Say whether the decoded values spell the stored bytes, and fit their columns."""
    return values == stored and all(
        _same_column([each[name] for each in stored], [each[name] for each in values], logical)
        for name, logical in _columns(model)
    )


@cache
def _columns(model: type[Component]) -> tuple[tuple[str, str], ...]:
    fields = zip(model.model_fields, model.component.columns, strict=True)
    return tuple((name, column.logical) for name, column in fields)


def _same_column(stored: list[Any], decoded: list[Any], logical: str) -> bool:
    """Compare what ``==`` forgives: 1 for 1.0 or True, and -0.0 for 0.0."""
    kinds = set(map(type, stored))
    if not kinds <= {_EXACT[logical], NoneType} or set(map(type, decoded)) != kinds:
        return False
    held = [each for each in stored if each is not None] if NoneType in kinds else stored
    match logical:
        case "int64":
            return not held or (min(held) >= limits.INTEGER_MIN and max(held) <= limits.INTEGER_MAX)
        case "float64" if 0.0 in held:
            return list(map(repr, stored)) == list(map(repr, decoded))
        case "string":
            return _encodes(held)
        case _:
            return True


def _encodes(texts: list[str]) -> bool:
    """Say whether texts fit a column: a lone surrogate is JSON, but no UTF-8."""
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        return False
    return True
