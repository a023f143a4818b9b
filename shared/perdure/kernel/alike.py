"""Commands alike, checked and spelled by the column.

Most large batches are thousands of times one operation on the same components. What is asked
of each value is then asked of whole columns, and one template spells every command. This is a
shortcut and never a verdict: whatever is not plainly in order is left to the way that looks at
each command, which says what is wrong, or that nothing is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache, lru_cache
from itertools import repeat
from math import isfinite
from operator import attrgetter, itemgetter
from typing import Any, Final, NamedTuple

from pydantic_core import to_json

from perdure.kernel import limits
from perdure.kernel.canonical import canonical
from perdure.kernel.component import Component, is_storable
from perdure.kernel.errors import PerdureError
from perdure.kernel.operations import AddComponents, Command, Spawn, Update
from perdure.kernel.plain import PlainField, plain_fields
from perdure.kernel.spelling import text

OPTIONS: Final = ("command_id", "tick", "priority", "max_attempts")
EXACT_MAX: Final = 2**53
"""Integers up to here are floats, exactly."""

FLOATS_MIN: Final = 8
"""Floats of a column that are worth the way to pydantic's core and back."""

ModelOf = Callable[[str, type], type[Component]]
"""Returns the class that a reference stands for beside a value of this type."""

_NO_OPTIONS: Final = (None,) * len(OPTIONS)
_options: Final = itemgetter(*OPTIONS)
_FLOAT: Final = {float}
_KINDS: Final = frozenset({Spawn, Update, AddComponents})


class Alike(NamedTuple):
    """Commands that say the same but for the values in them."""

    spelled: bytes
    """The inside of a list."""

    due: tuple[int | None, int]


class _Unlike(Exception):
    """Not plainly in order: to be looked at one by one."""


def alike(commands: Sequence[Command], model_of: ModelOf) -> Alike | None:
    """Spell commands of one kind, or return None to have each of them looked at.

    ``model_of`` raises what the reference is refused with.
    """
    try:
        if len(commands) == 1 and _options(commands[0].__dict__) == _NO_OPTIONS:
            return _alone(commands[0], model_of)
        return _together(commands, model_of)
    except (_Unlike, AttributeError, KeyError, TypeError, PerdureError):
        return None


def _alone(command: Command, model_of: ModelOf) -> Alike:
    """Spell one command without options: most admissions are of one."""
    fields = command.__dict__
    kind, components = type(command), fields["components"]
    if not _is_untouched(kind, [fields]) or type(components) is not dict:
        raise _Unlike
    row: list[Any] = []
    models: list[type[Component]] = []
    for reference, value in components.items():
        model = model_of(reference, type(value))
        models.append(model)
        held = _held(value)
        plain = _by_name(model)
        if plain is None or len(held) != len(plain):
            raise _Unlike
        for field in plain:
            each = held[field.name]
            if type(each) is not float or field.kind is not float or not isfinite(each):
                (each,) = _ready(field, [each])
            row.append(each)
    order, template = _template(kind, _NO_OPTIONS, tuple(models))
    if kind is not Spawn:
        row.append(fields["entity_id"])
        if type(row[-1]) is not int:
            raise _Unlike
    return _checked([template % tuple([row[at] for at in order])], _NO_OPTIONS)


def _together(commands: Sequence[Command], model_of: ModelOf) -> Alike:
    kind, options, fields = _outlines(commands)
    columns: list[Iterable[Any]] = []
    models: list[type[Component]] = []
    components = [each["components"] for each in fields]
    if set(map(type, components)) != {dict}:
        raise _Unlike
    for reference in _only(map(tuple, components)):
        values = [each[reference] for each in components]
        model = model_of(reference, _only(map(type, values)))
        models.append(model)
        columns += _columns(model, values)
    order, template = _template(kind, options, tuple(models))
    if kind is not Spawn:
        entities = [each["entity_id"] for each in fields]
        if set(map(type, entities)) != {int}:
            raise _Unlike
        columns.append(entities)
    rows = zip(*(columns[at] for at in order), strict=True) if order else repeat((), len(fields))
    return _checked(list(map(template.__mod__, rows)), options)


def _checked(spelled: list[str], options: tuple[Any, ...]) -> Alike:
    if max(map(len, spelled)) > limits.COMMAND_BYTES_MAX:
        raise _Unlike
    _, tick, priority, _ = options
    return Alike(",".join(spelled).encode("ascii"), (tick, 0 if priority is None else priority))


def _is_untouched(kind: type[Command], fields: Sequence[dict[str, Any]]) -> bool:
    """Say whether commands are of a kind known here, with its fields and none beside them."""
    return (
        kind in _KINDS
        and set(map(len, fields)) == {len(kind.model_fields)}
        and {each["operation"] for each in fields} == {kind.model_fields["operation"].default}
    )


def _held(value: Any) -> dict[str, Any]:
    if type(value) is dict:
        return value
    if not isinstance(value, Component):
        raise _Unlike
    return value.__dict__


def _only(values: Iterable[Any]) -> Any:
    """Return the one value there is. Raises _Unlike for several; TypeError for the unhashable."""
    different = set(values)
    if len(different) != 1:
        raise _Unlike
    return different.pop()


def _outlines(commands: Sequence[Command]) -> tuple[type[Command], Any, list[dict[str, Any]]]:
    """Return the kind and the options that commands share, and the fields of each."""
    kind = _only(map(type, commands))
    fields = [each.__dict__ for each in commands]
    if not _is_untouched(kind, fields):
        raise _Unlike
    options = _only(map(_options, fields))
    if options[0] is not None:  # an id of its own, which nobody else may have
        raise _Unlike
    for name, value in zip(OPTIONS, options, strict=True):
        # A set takes True for 1.
        if value is not None and set(map(type, [each[name] for each in fields])) != {int}:
            raise _Unlike
    return kind, options, fields


def _columns(model: type[Component], values: Sequence[Any]) -> Iterable[Sequence[Any]]:
    """Return the values of each field, in the order of their names, ready for the template."""
    plain = _by_name(model)
    if plain is None:
        raise _Unlike
    held = list(map(_held, values))
    if set(map(len, held)) != {len(plain)}:
        raise _Unlike
    columns = [[each[field.name] for each in held] for field in plain]
    return list(map(_ready, plain, columns))


@cache
def _by_name(model: type[Component]) -> tuple[PlainField, ...] | None:
    """Return the fields of a plain class in the order of their names, None of another class."""
    plain = plain_fields(model)
    return None if plain is None else tuple(sorted(plain, key=attrgetter("name")))


def _ready(field: PlainField, column: Sequence[Any]) -> Sequence[Any]:
    """Return a column as a template takes it. Raises _Unlike for what may be refused."""
    kinds = set(map(type, column))
    if kinds == _FLOAT and field.kind is float:
        return spelled_floats(column)
    if type(None) in kinds:
        return _with_nulls(field, column)
    if field.kind is float:
        return _integers_as_floats(column, kinds)
    if kinds != {field.kind}:
        raise _Unlike
    if field.kind is bool:
        return ["true" if each else "false" for each in column]
    if field.kind is str:
        return _texts(column)
    if not limits.INTEGER_MIN <= min(column) <= max(column) <= limits.INTEGER_MAX:
        raise _Unlike
    return column


def _with_nulls(field: PlainField, column: Sequence[Any]) -> Sequence[Any]:
    if not field.is_nullable:
        raise _Unlike
    held = [each for each in column if each is not None]
    ready = iter(_ready(field, held) if held else ())
    return ["null" if each is None else next(ready) for each in column]


def _texts(column: Sequence[str]) -> Sequence[str]:
    if not is_storable("".join(column)):
        raise _Unlike
    return list(map(text, column))


def _integers_as_floats(column: Sequence[Any], kinds: set[type]) -> Sequence[Any]:
    if not kinds <= {float, int} or not -EXACT_MAX <= min(column) <= max(column) <= EXACT_MAX:
        raise _Unlike
    return spelled_floats(list(map(float, column)))


_PROBE: Final = [0.0, -0.0, 1.0, 100.0, 0.1, 1 / 3, -2.5, 1234567.875, 0.0001, 999999999999999.9]


def spelled_floats(column: Sequence[float]) -> Sequence[Any]:
    """Return what spells floats as `canonical` does: texts, or the floats themselves.

    Raises _Unlike for those that are not finite.
    pydantic's core writes a column in a fifth of the time that Python takes: the same digits,
    since there is only one shortest text nearest to a float. Exponents it writes differently,
    and small numbers it writes without one; such columns are left to Python.
    """
    if len(column) >= FLOATS_MIN and _writes_as_python():
        joined = to_json(column).decode("ascii")
        # Letters: an exponent, `NaN`, `Infinity`, `null`.
        if not any(map(joined.__contains__, ("e", "n", "N", "0.0000"))):
            return joined[1:-1].split(",")
    if not all(map(isfinite, column)):
        raise _Unlike
    return column


@cache
def _writes_as_python() -> bool:
    """Say whether pydantic's core, in the version at hand, still writes as Python does."""
    return to_json(_PROBE) == canonical(_PROBE)


@lru_cache(maxsize=1_024)
def _template(
    kind: type[Command], options: tuple[Any, ...], models: tuple[type[Component], ...]
) -> tuple[tuple[int, ...], str]:
    """Return what spells a command of values, and the order in which it takes the columns."""
    order: list[int] = []
    components: dict[str, str] = {}
    starts: dict[str, range] = {}
    at = 0
    for model in models:
        name = model.component.name
        if name in components:
            raise _Unlike
        plain = _by_name(model) or ()
        starts[name] = range(at, at + len(plain))
        at += len(plain)
        components[name] = _object({field.name: "%s" for field in plain})
    for name in sorted(components):
        order += starts[name]
    told = {
        "components": _object(components),
        "operation": text(kind.model_fields["operation"].default),
    }
    if kind is not Spawn:
        told["entity_id"] = "%s"
        order.append(at)
    for option, value in zip(OPTIONS, options, strict=True):
        if value is not None:
            told[option] = canonical(value).decode("ascii")
    return tuple(order), _object(told)


def _object(members: dict[str, str]) -> str:
    """Spell an object of members that are spelled already."""
    parts = (f"{text(name).replace('%', '%%')}:{members[name]}" for name in sorted(members))
    return f"{{{','.join(parts)}}}"
