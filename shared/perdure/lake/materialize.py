"""Materialization: stored component values must be exactly what their registered class says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from operator import is_, itemgetter
from types import NoneType
from typing import Any, Final

from pydantic import TypeAdapter

from perdure.kernel.canonical import canonical
from perdure.kernel.columns import CommandColumns
from perdure.kernel.component import Component, ComponentType, Registry, checked_value
from perdure.kernel.errors import InvalidValue, UnknownComponent
from perdure.kernel.plain import plain_fields
from perdure.lake.entity import WITH_VALUES, Kind, Values
from perdure.lake.plain import fit_column, plain_columns

_EXACT: Final[Mapping[str, type]] = {"int64": int, "float64": float, "bool": bool, "string": str}

_AT_ONCE: Final = 200
"""Values decoded together. A model is three objects: more of them alive wake the collector."""


def kinds_of(commands: CommandColumns, values: Sequence[Values]) -> list[Kind]:
    """Return the kind of each command, given its values; those of one kind share the object."""
    operations, types = commands.operations, commands.types
    if operations and _is_one_kind(operations, types, values):
        named = {each: types[0].get(each) for each in values[0]}
        only = Kind(operations[0]["operation"], named, [*range(len(operations))], [*values])
        return [only] * len(operations)
    known: dict[tuple[Any, ...], Kind] = {}
    numbers: dict[tuple[tuple[str, str], ...], int] = {}
    last: Mapping[str, str] | None = None
    number = 0
    kinds: list[Kind] = []
    for index, (operation, held, given) in enumerate(zip(operations, types, values, strict=True)):
        if held is not last:
            # A batch's commands share the object, so its content is looked at once.
            last = held
            number = numbers.setdefault(tuple(sorted(held.items())), len(numbers))
        name = operation["operation"]
        components = tuple(given)
        kind = known.get((name, components, number))
        if kind is None:
            kind = Kind(name, {each: held.get(each) for each in components})
            known[name, components, number] = kind
        kind.indexes.append(index)
        kind.values.append(given)
        kinds.append(kind)
    return kinds


def _is_one_kind(
    operations: Sequence[Mapping[str, Any]],
    types: Sequence[Mapping[str, str]],
    values: Sequence[Values],
) -> bool:
    """Say whether commands are seen to be of one kind at a glance: a batch of spawns, as a rule."""
    return (
        len(set(map(id, types))) == 1
        and len(set(map(itemgetter("operation"), operations))) == 1
        and len(set(map(tuple, values))) == 1
    )


def unfit(kinds: Sequence[Kind], registry: Registry) -> list[Exception | None]:
    """Return why the values of commands of these kinds cannot be materialized, None for can.

    Tells the kinds the types of their components on the way, and their columns.
    """
    found: list[Exception | None] = [None] * len(kinds)
    for kind in dict.fromkeys(kinds):
        if kind.operation not in WITH_VALUES:
            continue
        types: list[ComponentType] = []
        columns: dict[str, Mapping[str, list[Any]]] = {}
        for name, fingerprint in kind.named.items():
            errors: Mapping[int, Exception] = {}
            try:
                model = registry.exact(name, fingerprint or "")
            except UnknownComponent as unknown:
                errors = dict.fromkeys(range(len(kind.indexes)), unknown)
            else:
                types.append(model.component)
                fitting = fitted(model, [each[name] for each in kind.values])
                if isinstance(fitting, Misfits):
                    errors = fitting.errors
                else:
                    columns[name] = fitting
            for place, error in errors.items():
                index = kind.indexes[place]
                found[index] = found[index] or error
        kind.types = tuple(types)
        kind.columns = columns if len(columns) == len(kind.named) else None
    return found


@dataclass(frozen=True, slots=True)
class Misfits:
    """By index, why stored values are not values of their class. At least one is not."""

    errors: Mapping[int, Exception]


def fitted(model: type[Component], stored: Sequence[Any]) -> dict[str, list[Any]] | Misfits:
    """Return stored values by field if all of them are values of ``model``.

    The values of a class without rules of its own are checked by the field, thousands at once.
    """
    plain = plain_fields(model)
    if plain is not None:
        columns = plain_columns(plain, stored)
        if columns is not None:
            return columns
    errors = failures(model, stored)
    if errors:
        return Misfits(errors)
    return {name: [each[name] for each in stored] for name, _ in _columns(model)}


def failures(model: type[Component], stored: Sequence[Any]) -> dict[int, Exception]:
    """Return, by index, why stored values are not values of ``model``; empty when all are.

    A value must decode to the class and encode back to the very same bytes. Many are tried at
    once; only if that fails, one by one. What a class's own validator raises is returned as it
    is, unless it is a BaseException only.
    """
    found: dict[int, Exception] = {}
    for first in range(0, len(stored), _AT_ONCE):
        part = stored[first : first + _AT_ONCE]
        if not _fit(model, part):
            found |= {first + index: error for index, error in _each(model, part)}
    return found


def _fit(model: type[Component], stored: Sequence[Any]) -> bool:
    plain = plain_fields(model)
    if plain is not None:
        return plain_columns(plain, stored) is not None
    try:
        decoded = _many(model).validate_python(stored)
    except Exception:  # noqa: BLE001  # each value is asked again by itself, and gives its reason
        return False
    return _same(model, stored, [each.__dict__ for each in decoded])


@cache
def _many(model: type[Component]) -> TypeAdapter[list[Component]]:
    return TypeAdapter(list[model])  # type: ignore[valid-type]  # a class made at run time


def _each(model: type[Component], stored: Sequence[Any]) -> Iterator[tuple[int, Exception]]:
    for index, value in enumerate(stored):
        error = _failure(model, value)
        if error is not None:
            yield index, error


def _failure(model: type[Component], stored: Any) -> Exception | None:
    try:
        value = checked_value(model, stored)
        if _same(model, [stored], [value]):
            return None
        spelled, found = canonical(value).decode(), canonical(stored).decode()
        if spelled == found:
            return InvalidValue(expected=f"{model.__name__} in text UTF-8 can spell", found=found)
        return InvalidValue(expected=f"{model.__name__} as {spelled}", found=found)
    except Exception as error:  # noqa: BLE001  # returned: its kind decides the command's fate
        return error


def _same(
    model: type[Component], stored: Sequence[Any], values: Sequence[Mapping[str, Any]]
) -> bool:
    """Say whether the decoded values spell the stored bytes, and fit their columns."""
    columns = _columns(model)
    return set(map(len, stored)) == {len(columns)} and all(
        _same_column([each[name] for each in stored], [each[name] for each in values], exact)
        for name, exact in columns
    )


@cache
def _columns(model: type[Component]) -> tuple[tuple[str, type], ...]:
    fields = zip(model.model_fields, model.component.columns, strict=True)
    return tuple((name, _EXACT[column.logical]) for name, column in fields)


def _same_column(stored: list[Any], decoded: list[Any], exact: type) -> bool:
    """Compare values, and what ``==`` forgives: 1 for 1.0 or True, and -0.0 for 0.0."""
    kinds = set(map(type, stored))
    if not kinds <= {exact, NoneType}:
        return False
    if not all(map(is_, stored, decoded)) and (
        stored != decoded
        or set(map(type, decoded)) != kinds
        or list(map(repr, stored)) != list(map(repr, decoded))
    ):
        return False
    held = [each for each in stored if each is not None] if NoneType in kinds else stored
    return fit_column(exact, held)
