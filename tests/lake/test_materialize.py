"""Materialization: a stored value is what its class says to the byte, however it is checked."""

from __future__ import annotations

from typing import Annotated

import pytest
from pydantic import ConfigDict, Field, field_validator, model_validator
from tests.lake.worldlings import Fragile, Label, Position

from perdure.kernel.component import Component
from perdure.kernel.plain import plain_fields
from perdure.lake.materialize import failures


class Anything(Component):
    number: int
    real: float
    is_on: bool
    text: str
    maybe: float | None = None
    word: Annotated[str | None, "a note without effect"] = "word"


class Asked(Component):
    """The same fields, but with a validator, so that pydantic is asked about every value."""

    number: int
    real: float
    is_on: bool
    text: str
    maybe: float | None = None
    word: str | None = "word"

    @model_validator(mode="after")
    def agrees(self):
        return self


GOOD = {"number": 1, "real": 0.5, "is_on": True, "text": "t", "maybe": None, "word": "w"}
ODD = [
    *(
        ("number", value)
        for value in (0, -1, 2**63 - 1, -(2**63), 2**63, 10**400, 1.0, True, "1", None)
    ),
    *(
        ("real", value)
        for value in (0.0, -0.0, 1e308, 1, True, float("nan"), float("inf"), "0.5", None)
    ),
    *(("is_on", value) for value in (False, 1, 0, "true", None)),
    *(("text", value) for value in ("", "é", "\0", "\ud800", 1, None, b"t")),
    *(("maybe", value) for value in (None, 0.0, 1, float("-inf"), "x")),
    *(("word", value) for value in (None, "", 5, ["w"])),
    ("unknown", 1),
]


@pytest.mark.parametrize(("field", "value"), ODD)
def test_a_plain_class_accepts_by_the_column_what_pydantic_accepts_one_by_one(field, value):
    assert plain_fields(Anything) is not None
    assert plain_fields(Asked) is None
    stored = [GOOD, {**GOOD, field: value}, GOOD]

    plain, asked = failures(Anything, stored), failures(Asked, stored)

    assert plain.keys() == asked.keys()
    assert plain.keys() <= {1}


@pytest.mark.parametrize("missing", GOOD)
def test_a_value_that_leaves_a_field_out_is_not_canonical(missing):
    stored = {name: value for name, value in GOOD.items() if name != missing}

    assert (
        failures(Anything, [GOOD, stored]).keys() == failures(Asked, [GOOD, stored]).keys() == {1}
    )


@pytest.mark.parametrize("value", [None, [], "text", 5, {}, True])
def test_a_value_that_is_no_mapping_is_refused(value):
    assert failures(Anything, [value]).keys() == failures(Asked, [value]).keys() == {0}


class Positive(Component):
    x: Annotated[float, Field(gt=0)]


class Aliased(Component):
    x: float = Field(alias="X")


class Checked(Component):
    x: float

    @field_validator("x")
    def is_small(cls, x):  # noqa: N805 - pydantic's form
        return x


class Initialized(Component):
    x: float

    def model_post_init(self, context):
        pass


class Stripped(Component):
    model_config = ConfigDict(str_strip_whitespace=True)

    x: str


class Loose(Component):
    model_config = ConfigDict(strict=False)

    x: float


@pytest.mark.parametrize(
    "model", [Positive, Aliased, Checked, Initialized, Stripped, Loose, Fragile]
)
def test_a_class_with_any_rule_of_its_own_is_not_plain(model):
    assert plain_fields(model) is None


@pytest.mark.parametrize("model", [Position, Label])
def test_a_class_of_bare_fields_is_plain(model):
    fields = plain_fields(model)

    assert [each.name for each in fields] == list(model.model_fields)


def test_a_constraint_of_the_class_is_asked():
    assert failures(Positive, [{"x": 1.0}, {"x": -1.0}]).keys() == {1}


def test_a_validator_that_changes_a_value_makes_it_another_than_the_stored_one():
    class Rounded(Component):
        x: float

        @field_validator("x")
        def rounds(cls, x):  # noqa: N805 - pydantic's form
            return abs(round(x, 1))

    stored = [{"x": 0.5}, {"x": 0.25}, {"x": -0.0}, {"x": 0.0}]

    assert failures(Rounded, stored).keys() == {1, 2}


def test_among_many_values_the_faulty_ones_are_named():
    stored = [{"x": float(n), "y": 0.0} for n in range(1_000)]
    for place in (0, 199, 200, 999):
        stored[place] = {"x": place, "y": 0.0}

    assert failures(Position, stored).keys() == {0, 199, 200, 999}
