"""Operations as they come from outside: what is refused, and under which code."""

from __future__ import annotations

import pytest
from tests.support.worldly import Counter, Position

from perdure.kernel.errors import InvalidValue, PerdureError
from perdure.kernel.operations import DIRECT_ONLY, Despawn, Spawn, parsed_commands

OK = "ok"
HUGE = 10**4_299
DESPAWN = {"operation": "despawn", "entity_id": 1}
SPAWN = {"operation": "spawn", "components": {"Position": {"x": 0, "y": 0}}}


def deep():
    nest = {}
    for _ in range(2_000):
        nest = {"a": nest}
    return nest


def verdict_of(raw):
    try:
        parsed_commands(raw)
    except PerdureError as error:
        return error.code if len(str(error)) < 400 else "too long a message"
    return OK


@pytest.mark.parametrize(
    ("raw", "verdict"),
    [
        ([], OK),
        ([DESPAWN, SPAWN], OK),
        ({}, "invalid_batch"),
        (None, "invalid_batch"),
        ("spawn", "invalid_batch"),
        ([[]], "wrong_type"),
        ([None], "wrong_type"),
        (["despawn"], "wrong_type"),
        ([{}], "unknown_operation"),
        ([{"operation": "Spawn"}], "unknown_operation"),
        ([{"operation": None}], "unknown_operation"),
        ([{"operation": ["spawn"]}], "unknown_operation"),
        ([{"operation": {"a": 1}}], "unknown_operation"),
        ([{"operation": HUGE}], "unknown_operation"),
        ([{"operation": "\ud800"}], "unknown_operation"),
        ([{"operation": "x" * 100_000}], "unknown_operation"),
        ([{"operation": "__init__"}], "unknown_operation"),
    ],
    ids=range(17),
)
def test_a_list_of_known_operations_is_wanted(raw, verdict):
    assert verdict_of(raw) == verdict


@pytest.mark.parametrize("name", sorted(DIRECT_ONLY))
def test_direct_only_operations_cannot_be_deferred(name):
    assert verdict_of([DESPAWN, {"operation": name, "entity_id": 1}]) == "direct_only"


@pytest.mark.parametrize(
    ("field", "value", "verdict"),
    [
        ("tick", None, OK),
        ("tick", 0, OK),
        ("tick", 10**15, OK),
        ("tick", 10**15 + 1, "out_of_range"),
        ("tick", -1, "out_of_range"),
        ("tick", True, "wrong_type"),
        ("tick", 1.0, "wrong_type"),
        ("tick", "1", "wrong_type"),
        ("tick", HUGE, "out_of_range"),
        ("tick", float("nan"), "wrong_type"),
        ("priority", -(2**31) + 1, OK),
        ("priority", 2**31 - 1, OK),
        ("priority", 2**31, "out_of_range"),
        ("priority", -(2**31), "out_of_range"),
        ("priority", False, "wrong_type"),
        ("max_attempts", 1, OK),
        ("max_attempts", 100, OK),
        ("max_attempts", 0, "out_of_range"),
        ("max_attempts", 101, "out_of_range"),
        ("entity_id", 2**63 - 1, OK),
        ("entity_id", 2**63, "out_of_range"),
        ("entity_id", 0, "out_of_range"),
        ("entity_id", True, "wrong_type"),
        ("entity_id", None, "wrong_type"),
        ("entity_id", deep(), "wrong_type"),
        ("command_id", "mine", OK),
        ("command_id", 7, "wrong_type"),
        ("command_id", ["a"], "wrong_type"),
        ("extra", 1, "unknown_field"),
        ("self", 1, "unknown_field"),
        ("components", {}, "unknown_field"),
        ("spawns", True, "unknown_field"),
        ("\ud800", 1, "invalid_value"),
        ("x" * 1_000, 1, "unknown_field"),
    ],
    ids=range(34),
)
def test_fields_are_strict_and_none_is_too_many(field, value, verdict):
    assert verdict_of([{**DESPAWN, field: value}]) == verdict


@pytest.mark.parametrize(
    ("components", "verdict"),
    [
        ({"Position": {"x": 0}}, OK),
        ({"Tag": {}}, OK),
        ({"Position@abc": {}, "": {}}, OK),
        ({}, "invalid_value"),
        (None, "wrong_type"),
        ([], "wrong_type"),
        ({"Position": 1}, "wrong_type"),
        ({"Position": None}, "wrong_type"),
        ({"Position": [1, 2]}, "wrong_type"),
        ({1: {}}, "wrong_type"),
    ],
    ids=range(10),
)
def test_components_are_values_by_name(components, verdict):
    assert verdict_of([{"operation": "spawn", "components": components}]) == verdict


@pytest.mark.parametrize(
    ("components", "verdict"),
    [(["Position"], OK), ([], "invalid_value"), ({"Position": {}}, "wrong_type")],
)
def test_components_to_be_removed_are_names(components, verdict):
    raw = {"operation": "remove_components", "entity_id": 1, "components": components}

    assert verdict_of([raw]) == verdict


def test_the_command_at_fault_is_named():
    with pytest.raises(InvalidValue, match=r"commands\.1\.tick"):
        parsed_commands([DESPAWN, {**DESPAWN, "tick": -1}])


def test_python_spells_components_by_position_or_by_name():
    by_position = Spawn(Position(x=0, y=0), Counter(value=1), tick=3)

    assert set(by_position.components) == {"Position", "Counter"}
    with pytest.raises(InvalidValue, match="twice"):
        Spawn(Counter(value=1), Counter(value=2))
    with pytest.raises(ValueError, match="extra"):
        Despawn(entity_id=1, extra=1)
