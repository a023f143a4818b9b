"""Parameters of a template: which there are, and which values CloudFormation takes for them.

Source: AWS CloudFormation user guide, "CloudFormation template Parameters syntax".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from perdure.kernel.errors import InvalidValue
from perdure.kernel.shown import shown

LISTS: Final = ("CommaDelimitedList", "List<")
NUMBERS: Final = frozenset({"Number", "List<Number>"})

_NUMBER: Final = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)", re.ASCII)


def values(
    declared: Mapping[str, Mapping[str, Any]],
    given: Mapping[str, str],
    assumed: Mapping[str, str],
) -> dict[str, str]:
    """Return the values of parameters: what is given, what is assumed, or their defaults.

    What is ``assumed`` is the emulator's own: it counts where there is such a parameter, and is not
    checked. Raises: InvalidValue for a name that is not declared, and a value that is refused.
    """
    for name in given:
        if name not in declared:
            raise InvalidValue(
                expected=f"a parameter of the template: {', '.join(declared) or 'it has none'}",
                found=shown(name),
            )
    found: dict[str, str] = {}
    for name, parameter in declared.items():
        if name in given or (name not in assumed and "Default" in parameter):
            found[name] = _text(given.get(name, parameter.get("Default")))
            _check(name, parameter, found[name])
        elif name in assumed:
            found[name] = assumed[name]
    return found


def is_list(parameter: Mapping[str, Any]) -> bool:
    """Say whether a parameter's value is a list, written with commas."""
    return str(parameter.get("Type", "")).startswith(LISTS)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _check(name: str, parameter: Mapping[str, Any], value: str) -> None:
    items = [each.strip() for each in value.split(",")] if is_list(parameter) else [value]
    for item in items:
        for expected, holds in _constraints(parameter):
            if not holds(item):
                raise InvalidValue(
                    expected=f"parameter {name} to be "
                    f"{parameter.get('ConstraintDescription', expected)}",
                    found="a value that is not shown" if parameter.get("NoEcho") else shown(value),
                )


def _constraints(parameter: Mapping[str, Any]) -> list[tuple[str, Callable[[str], bool]]]:
    """Return what must be true of a value, or of each item of a list."""
    found: list[tuple[str, Callable[[str], bool]]] = []
    if parameter.get("Type") in NUMBERS:
        found.append(("a number", lambda item: _NUMBER.fullmatch(item) is not None))
    if "AllowedValues" in parameter:
        allowed = [_text(each) for each in parameter["AllowedValues"]]
        found.append((f"one of {', '.join(allowed)}", allowed.__contains__))
    if "AllowedPattern" in parameter:
        pattern = _pattern(str(parameter["AllowedPattern"]))
        found.append((f"like {pattern.pattern}", lambda item: pattern.fullmatch(item) is not None))
    for name, size in (("Value", _decimal), ("Length", len)):
        if f"Min{name}" in parameter:
            found.append(_bound(parameter, f"Min{name}", size))
        if f"Max{name}" in parameter:
            found.append(_bound(parameter, f"Max{name}", size))
    return found


def _bound(
    parameter: Mapping[str, Any], name: str, size: Callable[[str], Any]
) -> tuple[str, Callable[[str], bool]]:
    bound = _decimal(parameter[name])
    what = "characters, " if name.endswith("Length") else ""
    if name.startswith("Min"):
        return f"{what}at least {bound}", lambda item: size(item) >= bound
    return f"{what}at most {bound}", lambda item: size(item) <= bound


def _decimal(value: Any) -> Decimal:
    try:
        return Decimal(str(value))
    except InvalidOperation:
        raise InvalidValue(expected="a number", found=shown(str(value))) from None


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        # CloudFormation reads Java's expressions; most are Python's too.
        raise InvalidValue(expected="an AllowedPattern that Python reads", found=text) from error
