"""Filters: the few words a query may say of its rows, read by hand and never evaluated."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from perdure.kernel import limits
from perdure.kernel.errors import InvalidFilter
from perdure.kernel.shown import shown

TEXT_CHARACTERS_MAX: Final = 4_000

Value = int | float | bool | str

_TOKEN: Final = re.compile(
    r"\s*(?:(?P<name>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)?)"
    r"|(?P<number>[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,3})?)"
    r"|(?P<text>'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\")"
    r"|(?P<operator><=|>=|!=|<>|==|=|<|>))",
    re.ASCII,
)

_OPERATORS: Final[Mapping[str, Callable[[pc.Expression, pc.Expression], pc.Expression]]] = {
    "=": operator.eq,
    "==": operator.eq,
    "!=": operator.ne,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_EQUALITIES: Final = {"=", "==", "!=", "<>"}


def filter_of(text: str, schema: pa.Schema) -> pc.Expression:
    """Read ``column operator literal`` comparisons joined by ``and``.

    A column is spelled as in the table (``position__latitude``) or ``Position.latitude``;
    a literal is a number, ``'text'``, ``true`` or ``false``. A row without a value in a
    column fails every comparison. Raises InvalidFilter.
    """
    if len(text) > TEXT_CHARACTERS_MAX:
        raise InvalidFilter(
            expected=f"a filter of at most {TEXT_CHARACTERS_MAX} characters", found=str(len(text))
        )
    words = list(_words(text))
    comparisons = []
    while True:
        comparisons.append(_comparison(words[:3], schema))
        words = words[3:]
        if not words:
            break
        kind, word = words.pop(0)
        if kind != "name" or word.lower() != "and":
            raise InvalidFilter(expected="`and` between two comparisons", found=repr(word[:40]))
    whole = comparisons[0]
    for comparison in comparisons[1:]:
        whole &= comparison
    return whole


def _words(text: str) -> Iterator[tuple[str, str]]:
    at = 0
    text = text.rstrip()
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise InvalidFilter(
                expected="a column, an operator (= != < <= > >=), a literal, or `and`",
                found=repr(text[at : at + 40].strip()),
            )
        at = found.end()
        assert found.lastgroup is not None
        yield found.lastgroup, found.group(found.lastgroup)


def _comparison(words: list[tuple[str, str]], schema: pa.Schema) -> pc.Expression:
    kinds = [kind for kind, _ in words]
    if kinds[:2] != ["name", "operator"] or len(words) < 3 or kinds[2] == "operator":
        spelled = " ".join(word for _, word in words)
        raise InvalidFilter(
            expected="a comparison `column operator literal`",
            found=repr(spelled[:80]) if words else "the end",
        )
    (_, name), (_, sign), literal = words
    field = _field(name, schema)
    value = _value(*literal)
    _check_type(field, sign, value)
    if pa.types.is_float64(field.type):
        value = float(value)
    return _OPERATORS[sign](pc.field(field.name), pc.scalar(value))


def _field(name: str, schema: pa.Schema) -> pa.Field:
    component, dot, field = name.partition(".")
    column = f"{component.lower()}__{field}" if dot else name
    if column not in schema.names:
        raise InvalidFilter(
            expected=f"one of the columns {', '.join(schema.names)}", found=shown(name)
        )
    return schema.field(column)


def _value(kind: str, word: str) -> Value:
    if kind == "text":
        quote = word[0]
        return word[1:-1].replace(quote * 2, quote)
    if kind == "number":
        return float(word) if set(word) & set(".eE") else int(word)
    if word.lower() in {"true", "false"}:
        return word.lower() == "true"
    raise InvalidFilter(expected="a number, 'text', true or false", found=shown(word))


def _check_type(field: pa.Field, sign: str, value: Value) -> None:
    if pa.types.is_boolean(field.type):
        fits, wanted = isinstance(value, bool) and sign in _EQUALITIES, "= or != with true or false"
    elif pa.types.is_string(field.type):
        fits, wanted = isinstance(value, str), "a comparison with 'text'"
    else:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        fits, wanted = is_number, "a comparison with a number"
    if not fits:
        raise InvalidFilter(expected=f"for {field.name}: {wanted}", found=f"{sign} {shown(value)}")
    if isinstance(value, int) and not limits.INTEGER_MIN <= value <= limits.INTEGER_MAX:
        raise InvalidFilter(expected=f"for {field.name}: an integer of 64 bits", found=shown(value))
