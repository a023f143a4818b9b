"""Staging: what commands do to the state of a world, and what becomes of those that cannot."""

from __future__ import annotations

import os

import pytest
from tests.lake.worldlings import (
    MODELS,
    ORIGIN,
    REGISTRY,
    STILL,
    TYPES,
    Position,
    Velocity,
    add,
    after,
    command,
    contents,
    despawn,
    remove,
    spawn,
    update,
)

from perdure.kernel.component import Component, Registry, table_id
from perdure.kernel.errors import SchemaMismatch
from perdure.lake.archetype import Shape
from perdure.lake.changes import changes
from perdure.lake.staging import Staging
from perdure.lake.state import EMPTY


def verdicts(*commands, state=EMPTY, stop_on_retryable=True):
    staging = Staging(state, REGISTRY)
    result = staging.apply(commands, stop_on_retryable=stop_on_retryable)
    failed = [(each.sequence, each.code) for each in (*result.rejected, *result.retryable)]
    return result.applied, failed, result.not_reached, contents(staging.state())


def test_entities_of_one_component_set_share_a_table_in_the_order_of_their_ids():
    state = after(
        spawn(1, 9, Position=ORIGIN),
        spawn(2, 3, Position=ORIGIN),
        spawn(3, 5, Position=ORIGIN, Velocity=STILL),
    )

    tables = {table: each.ids.tolist() for table, each in state.archetypes.items()}

    assert tables == {
        table_id([Position.component]): [3, 9],
        table_id([Position.component, Velocity.component]): [5],
    }
    assert state.entities == 3


def test_commands_of_one_tick_compose_in_their_order():
    state = after(
        spawn(1, 1, Position=ORIGIN),
        update(2, 1, Position={"x": 1.0, "y": 2.0}),
        add(3, 1, Velocity={"dx": 3.0}),
        remove(4, 1, "Position"),
        add(5, 1, Position={"x": 4.0, "y": 5.0}),
    )

    assert contents(state) == {1: {"position__x": 4.0, "position__y": 5.0, "velocity__dx": 3.0}}


def test_a_spawn_that_is_despawned_in_its_tick_leaves_no_row():
    state = after(spawn(1, 1, Position=ORIGIN), despawn(2, 1))

    written = changes(EMPTY, state)

    assert contents(state) == {}
    assert written.tables == ()


def test_an_update_leaves_the_components_it_does_not_name():
    before = after(spawn(1, 1, Position=ORIGIN, Velocity={"dx": 7.0}))

    state = after(update(2, 1, Position={"x": 1.0, "y": 1.0}), state=before)

    assert contents(state)[1] == {"position__x": 1.0, "position__y": 1.0, "velocity__dx": 7.0}
    assert contents(before)[1]["position__x"] == 0.0


def test_a_component_without_fields_and_an_entity_without_components_are_alive():
    class Tag(Component):
        pass

    registry = Registry([Tag])
    types = {"Tag": Tag.component.fingerprint}
    staging = Staging(EMPTY, registry)

    staging.apply(
        [command(1, {"operation": "spawn", "components": {"Tag": {}}}, entity_id=1, types=types)]
    )
    tagged = staging.state()
    staging.apply(
        [
            command(
                2,
                {"operation": "remove_components", "components": ["Tag"]},
                entity_id=1,
                types=types,
            )
        ]
    )

    assert contents(tagged) == contents(staging.state()) == {1: {}}
    assert tagged.archetypes.keys() != staging.state().archetypes.keys()
    assert changes(tagged, staging.state()).rows == 2


@pytest.mark.parametrize(
    ("made", "code"),
    [
        (spawn(9, 1, Position=ORIGIN), "entity_exists"),
        (despawn(9, 2), "entity_not_found"),
        (update(9, 2, Position=ORIGIN), "entity_not_found"),
        (add(9, 2, Velocity=STILL), "entity_not_found"),
        (remove(9, 2, "Position"), "entity_not_found"),
        (update(9, 1, Velocity=STILL), "component_absent"),
        (update(9, 1, Position=ORIGIN, Velocity=STILL), "component_absent"),
        (remove(9, 1, "Position", "Velocity"), "component_absent"),
        (add(9, 1, Position=ORIGIN), "component_present"),
        (add(9, 1, Position=ORIGIN, Velocity=STILL), "component_present"),
        (command(9, {"operation": "teleport"}, entity_id=1), "unknown_operation"),
        (spawn(9, 2, Ghost={}), "unknown_component"),
        (spawn(9, 2, Position={"x": 1, "y": 0.0}), "invalid_value"),
        (spawn(9, 2, Position={"x": "1", "y": 0.0}), "wrong_type"),
        (spawn(9, 2, Position={"x": 1.0}), "missing_field"),
        (spawn(9, 2, Position={"x": 1.0, "y": 0.0, "z": 0.0}), "unknown_field"),
        (spawn(9, 2, Position={"x": float("nan"), "y": 0.0}), "not_finite"),
        (spawn(9, 2, Position=[1.0, 2.0]), "wrong_type"),
        (spawn(9, 2, Position=None), "wrong_type"),
        (spawn(9, 2, Label={"text": None, "rank": 2**63, "is_new": False}), "out_of_range"),
        (spawn(9, 2, Label={"text": None, "rank": True, "is_new": False}), "wrong_type"),
        (spawn(9, 2, Label={"text": "\ud800", "rank": 1, "is_new": False}), "invalid_value"),
        (spawn(9, 2, Label={"text": "default left out"}), "invalid_value"),
        (spawn(9, 2, Fragile={"strength": -1}), "invalid_value"),
    ],
)
def test_a_command_that_cannot_be_applied_is_rejected_with_a_code_and_changes_nothing(made, code):
    before = after(spawn(1, 1, Position={"x": 1.0, "y": 2.0}))

    applied, failed, not_reached, held = verdicts(made, spawn(10, 7, Position=ORIGIN), state=before)

    assert failed == [(9, code)]
    assert applied == [10]
    assert not_reached == []
    assert held == contents(before) | {7: {"position__x": 0.0, "position__y": 0.0}}


def test_a_rejection_says_what_was_expected_and_found_within_its_limit():
    staging = Staging(EMPTY, REGISTRY)

    result = staging.apply(
        [spawn(1, 1, Label={"text": "a" * 10_000, "rank": 1.5, "is_new": False})]
    )

    (failure,) = result.rejected
    assert failure.detail.startswith("Expected Label.rank")
    assert len(failure.detail) <= 300


def test_a_component_of_the_same_name_with_another_schema_is_never_guessed():
    other = {"Position": "0" * 64}

    _, failed, _, held = verdicts(
        command(
            1, {"operation": "spawn", "components": {"Position": ORIGIN}}, entity_id=1, types=other
        )
    )

    assert failed == [(1, "unknown_component")]
    assert held == {}


def test_an_entity_keeps_the_schema_its_component_was_given_with():
    class Newer:
        class Position(Component):
            x: float
            y: float
            z: float

    newer = {"Position": Newer.Position.component.fingerprint}
    registry = Registry([*MODELS, Newer.Position])
    before = after(spawn(1, 1, Position=ORIGIN))
    given = {"Position": {"x": 0.0, "y": 0.0, "z": 0.0}}

    staging = Staging(before, registry)
    result = staging.apply(
        [
            command(2, {"operation": "update", "components": given}, entity_id=1, types=newer),
            command(
                3, {"operation": "add_components", "components": given}, entity_id=1, types=newer
            ),
            remove(4, 1, "Position"),
            command(
                5, {"operation": "add_components", "components": given}, entity_id=1, types=newer
            ),
        ]
    )

    assert [(each.sequence, each.code) for each in result.rejected] == [
        (2, "component_absent"),
        (3, "component_present"),
    ]
    assert contents(staging.state()) == {
        1: {"position__x": 0.0, "position__y": 0.0, "position__z": 0.0}
    }


def test_components_whose_columns_would_collide_are_refused():
    class Outer(Component):
        inner__x: float

    class Outer__inner(Component):  # noqa: N801 - the name is the point
        x: float

    with pytest.raises(SchemaMismatch, match="outer__inner__x"):
        Shape((Outer.component, Outer__inner.component))


def test_an_unexpected_error_makes_a_command_retryable_and_stops_the_drain():
    applied, failed, not_reached, held = verdicts(
        spawn(1, 1, Fragile={"strength": 5}),
        spawn(2, 2, Fragile={"strength": 0}),
        spawn(3, 3, Fragile={"strength": 5}),
        spawn(4, 4, Position=ORIGIN),
    )

    assert applied == [1]
    assert failed == [(2, "runtime_error")]
    assert not_reached == [3, 4]
    assert held == {1: {"fragile__strength": 5}}


def test_a_world_may_choose_to_go_on_after_a_retryable_failure():
    applied, failed, not_reached, held = verdicts(
        spawn(1, 1, Fragile={"strength": 0}),
        spawn(2, 2, Fragile={"strength": 5}),
        stop_on_retryable=False,
    )

    assert applied == [2]
    assert failed == [(1, "runtime_error")]
    assert not_reached == []
    assert held == {2: {"fragile__strength": 5}}


def test_what_is_no_exception_passes_through():
    staging = Staging(EMPTY, REGISTRY)

    with pytest.raises(KeyboardInterrupt):
        staging.apply([spawn(1, 1, Fragile={"strength": -2})])


def test_a_validator_that_ends_the_process_ends_it():
    child = os.fork()
    if child == 0:
        try:
            Staging(EMPTY, REGISTRY).apply([spawn(1, 1, Fragile={"strength": -3})])
        finally:  # it must not go on as a second run of the tests
            os._exit(0)

    _, status = os.waitpid(child, 0)

    assert os.waitstatus_to_exitcode(status) == 17


def test_commands_of_many_batches_with_maps_of_their_own_are_like_those_of_one():
    commands = [
        command(
            n,
            {"operation": "spawn", "components": {"Velocity": {"dx": 1.0}}},
            entity_id=n,
            types=dict(TYPES),
        )
        for n in range(1, 50)
    ]

    state = after(*commands)

    assert state.entities == 49
    assert len(state.archetypes) == 1
