"""Components: which classes there may be, which values they take, and how they are known."""

from __future__ import annotations

import math
from typing import Annotated

import pytest
from pydantic import AfterValidator, Field, field_validator
from tests.support.worldly import REGISTRY, Counter, Position, Tag

from perdure.kernel.canonical import canonical
from perdure.kernel.component import Component, Registry, checked_value, table_id
from perdure.kernel.errors import InvalidValue, PerdureError, UnknownComponent

TOO_LONG = 10**4_299


def verdict_of(model, value):
    try:
        return checked_value(model, value)
    except PerdureError as error:
        return error.code


@pytest.mark.parametrize(
    ("model", "value", "verdict"),
    [
        (Position, {"x": 1.5, "y": 2}, {"x": 1.5, "y": 2.0}),
        (Position, Position(x=1.5, y=2.0), {"x": 1.5, "y": 2.0}),
        (Position, {"x": 10**22, "y": 0.0}, {"x": 1e22, "y": 0.0}),
        (Position, {"x": -0.0, "y": 0.0}, {"x": -0.0, "y": 0.0}),
        (Position, {"x": math.nan, "y": 0.0}, "not_finite"),
        (Position, {"x": math.inf, "y": 0.0}, "not_finite"),
        (Position, {"x": 10**400, "y": 0.0}, "wrong_type"),
        (Position, {"x": True, "y": 0.0}, "wrong_type"),
        (Position, {"x": "1", "y": 0.0}, "wrong_type"),
        (Position, {"x": None, "y": 0.0}, "wrong_type"),
        (Position, {"x": 0.0}, "missing_field"),
        (Position, {"x": 0.0, "y": 0.0, "z": 0.0}, "unknown_field"),
        (Position, {"x": 0.0, "y": 0.0, "__class__": 0}, "unknown_field"),
        (Position, Position.model_construct(x=math.nan, y=0.0), "not_finite"),
        (Position, [1.0, 2.0], "wrong_type"),
        (Position, None, "wrong_type"),
        (Counter, {"value": 2**63 - 1}, {"value": 2**63 - 1, "note": None}),
        (Counter, {"value": -(2**63)}, {"value": -(2**63), "note": None}),
        (Counter, {"value": 2**63}, "out_of_range"),
        (Counter, {"value": -(2**63) - 1}, "out_of_range"),
        (Counter, {"value": TOO_LONG}, "out_of_range"),
        (Counter, {"value": True}, "wrong_type"),
        (Counter, {"value": 1.0}, "wrong_type"),
        (Counter, {"value": 1, "note": "ä\0"}, {"value": 1, "note": "ä\0"}),
        (Counter, {"value": 1, "note": b"a"}, "wrong_type"),
        (Counter, {"value": 1, "note": "half \ud83d"}, "invalid_value"),
        (Tag, {}, {}),
    ],
    ids=range(27),
)
def test_values_are_of_the_type_of_their_field(model, value, verdict):
    found = verdict_of(model, value)

    assert canonical(found) == canonical(verdict)


def test_a_value_too_deep_or_too_long_to_print_is_still_refused_in_words():
    deep = {"a": 1}
    for _ in range(2_000):
        deep = {"a": deep}

    # Python 3.11 cannot print it, 3.13 can: either way one short line is told.
    with pytest.raises(InvalidValue) as refused:
        checked_value(Counter, {"value": deep})
    assert len(str(refused.value)) < 300


def test_what_is_stored_reads_back_to_the_same_bytes():
    stored = canonical(checked_value(Position, {"x": 1, "y": 1e22}))

    again = checked_value(Position, {"x": 1.0, "y": 1e22})

    assert canonical(again) == stored


def doubled(value):
    return value * 2


class Doubled(Component):
    value: Annotated[int, AfterValidator(doubled)]


class Clamped(Component):
    value: int

    @field_validator("value")
    @classmethod
    def clamp(cls, value):
        return min(value, 10)


class Aliased(Component):
    value: int = Field(alias="Value")


@pytest.mark.parametrize(
    ("model", "value", "verdict"),
    [
        (Doubled, {"value": 0}, {"value": 0}),
        (Doubled, {"value": 3}, "invalid_value"),
        (Clamped, {"value": 30}, {"value": 10}),
        (Aliased, {"Value": 1}, "missing_field"),
    ],
)
def test_values_that_their_class_would_not_read_back_are_refused(model, value, verdict):
    assert verdict_of(model, value) == verdict


def other_position():
    class Position(Component):
        x: float

    return Position


@pytest.mark.parametrize(
    ("reference", "verdict"),
    [
        ("Position", Position),
        (f"Position@{Position.component.fingerprint}", Position),
        ("position", UnknownComponent),
        ("Position@", UnknownComponent),
        ("Position@0123", UnknownComponent),
        ("Position@@", UnknownComponent),
        ("", UnknownComponent),
        ("@", UnknownComponent),
        ("__class__", UnknownComponent),
        ("tests.Position", UnknownComponent),
        ("\ud800", UnknownComponent),
        ("x" * 1_000_000, UnknownComponent),
    ],
    ids=range(12),
)
def test_a_component_is_found_by_its_exact_name(reference, verdict):
    if verdict is not UnknownComponent:
        assert REGISTRY.named(reference) is verdict
        return
    with pytest.raises(UnknownComponent) as raised:
        REGISTRY.named(reference)
    assert len(str(raised.value)) < 400


def test_a_name_with_two_schemas_is_never_guessed():
    other = other_position()
    registry = Registry((Position, other))

    with pytest.raises(UnknownComponent, match="2 schemas"):
        registry.named("Position")

    assert registry.exact("Position", other.component.fingerprint) is other


def test_equal_fields_are_one_component_wherever_the_class_lives():
    class Position(Component):
        x: float | None
        y: float

    registry = Registry((REGISTRY.named("Position"), Position))

    assert registry.named("Position") is REGISTRY.named("Position")


def test_components_never_share_a_column():
    class POSITION(Component):
        x: float

    class Position__x(Component):  # noqa: N801  # the name is the case
        y: float

    class Position__(Component):  # noqa: N801
        x: float

    registry = Registry((Position, Position__x, Position__))

    with pytest.raises(TypeError, match="position__x"):
        registry.add(POSITION)


@pytest.mark.parametrize("kind", [list[int], dict, bytes, "Position", int | str, None])
def test_a_field_that_no_column_holds_is_refused_when_the_class_is_made(kind):
    with pytest.raises((TypeError, NameError)):
        type("Broken", (Component,), {"__annotations__": {"value": kind}, "__module__": "x"})


def test_a_table_is_named_by_what_it_holds_in_any_order():
    types = (Position.component, Counter.component)

    assert table_id(types) == table_id(reversed(types))
    assert table_id(types).startswith("a_2c_")
    assert table_id(types) != table_id((other_position().component, Counter.component))


def test_a_bound_may_stand_inside_or_around_a_nullable_field():
    bounded = Annotated[int, Field(ge=0)]

    class Fuel(Component):
        inside: bounded | None = None
        around: Annotated[int | None, Field(ge=0)] = None

    assert [(column.logical, column.nullable) for column in Fuel.component.columns] == [
        ("int64", True),
        ("int64", True),
    ]
