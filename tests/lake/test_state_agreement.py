"""Columnar staging and row changes agree with a model that is too simple to be wrong."""

from __future__ import annotations

from itertools import chain

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.lake.worldlings import (
    REGISTRY,
    add,
    contents,
    despawn,
    remove,
    spawn,
    stored,
    update,
)

from perdure.lake import staging
from perdure.lake.changes import changes, checkpoint
from perdure.lake.staging import ALIKE_MIN, Staging
from perdure.lake.state import EMPTY, rebuilt

NAMES = ("Position", "Velocity", "Label", "Fragile")
FLOATS = st.sampled_from([0.0, -0.0, 1.5, -2.25, 1e300])
GOOD = {
    "Position": st.fixed_dictionaries({"x": FLOATS, "y": FLOATS}),
    "Velocity": st.fixed_dictionaries({"dx": FLOATS}),
    "Label": st.fixed_dictionaries(
        {
            "text": st.none() | st.sampled_from(["", "é", "long"]),
            "rank": st.integers(0, 3),
            "is_new": st.booleans(),
        }
    ),
    "Fragile": st.fixed_dictionaries({"strength": st.integers(1, 3)}),
}
BAD = {
    "Position": st.just({"x": 1, "y": 2.0}),
    "Velocity": st.just({"dx": "fast"}),
    "Label": st.just({"rank": 1}),
    "Fragile": st.sampled_from([{"strength": 0}, {"strength": -1}]),
}


def values_of(name):
    return st.one_of([GOOD[name]] * 9 + [BAD[name]])


COMPONENTS = st.lists(st.sampled_from(NAMES), unique=True, max_size=3).flatmap(
    lambda names: st.fixed_dictionaries({name: values_of(name) for name in names})
)
ENTITIES = st.integers(1, 6)
COMMANDS = st.lists(
    st.one_of(
        st.builds(lambda e, c: ("spawn", e, c), ENTITIES, COMPONENTS),
        st.builds(lambda e: ("despawn", e, None), ENTITIES),
        st.builds(lambda e, c: ("update", e, c), ENTITIES, COMPONENTS),
        st.builds(lambda e, c: ("add", e, c), ENTITIES, COMPONENTS),
        st.builds(
            lambda e, n: ("remove", e, n), ENTITIES, st.sets(st.sampled_from(NAMES), max_size=2)
        ),
    ),
    max_size=25,
)


def built(plan, first=1):
    made = []
    for sequence, (operation, entity, argument) in enumerate(plan, start=first):
        match operation:
            case "spawn":
                made.append(spawn(sequence, entity, **argument))
            case "despawn":
                made.append(despawn(sequence, entity))
            case "update":
                made.append(update(sequence, entity, **argument))
            case "add":
                made.append(add(sequence, entity, **argument))
            case "remove":
                made.append(remove(sequence, entity, *sorted(argument)))
    return made


UNFIT = (
    ("runtime_error", {"strength": 0}),
    ("invalid_value", {"strength": -1}),
    ("wrong_type", {"dx": "fast"}),
    ("invalid_value", {"rank": 1}),
)


def verdict(world, operation, entity, argument):
    """Apply one command to a plain dict, or return why not."""
    if operation in {"spawn", "update", "add"}:
        for value in argument.values():
            codes = [code for code, unfit in UNFIT if value == unfit]
            if codes or type(value.get("x")) is int:
                return codes[0] if codes else "invalid_value"
    if operation == "spawn":
        if entity in world:
            return "entity_exists"
        world[entity] = dict(argument)
        return None
    if entity not in world:
        return "entity_not_found"
    return changed(world, operation, entity, argument)


def changed(world, operation, entity, argument):
    held = world[entity]
    match operation:
        case "despawn":
            del world[entity]
            return None
        case "add" if argument.keys() & held.keys():
            return "component_present"
        case "update" if argument.keys() - held.keys():
            return "component_absent"
        case "remove" if argument - held.keys():
            return "component_absent"
        case "remove":
            world[entity] = {name: value for name, value in held.items() if name not in argument}
        case _:
            world[entity] = {**held, **argument}
    return None


def flat(world):
    return {
        entity: {
            f"{name.lower()}__{field}": value
            for name, fields in sorted(components.items())
            for field, value in fields.items()
        }
        for entity, components in world.items()
    }


def spelled(world):
    """Return a world in a form in which -0.0 is not 0.0, and columns have an order."""
    return {entity: repr(sorted(row.items())) for entity, row in world.items()}


def modelled(world, plan, first, *, stops):
    applied, rejected, retryable, not_reached = [], [], [], []
    for sequence, (operation, entity, argument) in enumerate(plan, start=first):
        if retryable and stops:
            not_reached.append(sequence)
            continue
        code = verdict(world, operation, entity, argument)
        if code is None:
            applied.append(sequence)
        elif code == "runtime_error":
            retryable.append((sequence, code))
        else:
            rejected.append((sequence, code))
    return applied, rejected, retryable, not_reached


def told(result):
    return (
        result.applied,
        [(each.sequence, each.code) for each in result.rejected],
        [(each.sequence, each.code) for each in result.retryable],
        result.not_reached,
    )


@settings(max_examples=300, deadline=None)
@given(st.lists(COMMANDS, min_size=1, max_size=4), st.booleans(), st.data())
def test_staging_does_what_one_by_one_on_a_dict_would_do(ticks, stops, data):
    with pytest.MonkeyPatch.context() as patch:
        # Runs that are held as columns are longer than these: let some of one command be held so.
        patch.setattr(staging, "ALIKE_MIN", data.draw(st.sampled_from([1, 2, ALIKE_MIN])))
        check_ticks(ticks, data, stops=stops)


def check_ticks(ticks, data, *, stops):
    world, state, history, sequence = {}, EMPTY, [], 1
    for tick, plan in enumerate(ticks):
        expected = modelled(world, plan, sequence, stops=stops)
        before = contents(state)

        staged = Staging(state, REGISTRY)
        cut = data.draw(st.integers(0, len(plan)))
        commands = built(plan, sequence)
        results = [staged.apply(commands[:cut], stop_on_retryable=stops)]
        if not (results[0].retryable and stops):
            results.append(staged.apply(commands[cut:], stop_on_retryable=stops))
        after = staged.state()

        outcome = [[*chain(*parts)] for parts in zip(*map(told, results), strict=True)]
        whole = cut + (len(plan) - cut) * (len(results) - 1)
        assert outcome == [
            [
                each
                for each in part
                if (each if isinstance(each, int) else each[0]) < sequence + whole
            ]
            for part in expected
        ]
        assert spelled(contents(after)) == spelled(flat(world))
        assert spelled(contents(state)) == spelled(before), "the state before stays as it was"

        found = changes(state, after)
        check_rows(before, contents(after), found)
        history.append(stored(found.tables, tick))
        assert spelled(contents(rebuilt(history))) == spelled(flat(world))
        assert spelled(contents(rebuilt([stored(checkpoint(after), tick)]))) == spelled(flat(world))
        state, sequence = after, sequence + len(plan)


BAD_VELOCITY = {"Velocity": {"dx": "fast"}}
STILL = {"Velocity": {"dx": 0.0}}
LEFT = {"Velocity": {"dx": -2.25}}


@pytest.mark.parametrize("operation", ["spawn", "update"])
def test_one_bad_command_of_a_kind_takes_nothing_from_a_long_run_of_good_ones(operation):
    entities = range(1, 2 * ALIKE_MIN)
    spawned = [("spawn", each, STILL) for each in entities]
    bad = [(operation, 1_000, BAD_VELOCITY), ("despawn", 1_001, None)]
    good = [(operation, each, LEFT) for each in entities]
    plans = [bad + good] if operation == "spawn" else [spawned, bad + good]

    world, state, sequence = {}, EMPTY, 1
    for plan in plans:
        expected = modelled(world, plan, sequence, stops=False)
        staged = Staging(state, REGISTRY)
        result = staged.apply(built(plan, sequence), stop_on_retryable=False)
        state, sequence = staged.state(), sequence + len(plan)

        assert told(result) == expected
        assert spelled(contents(state)) == spelled(flat(world))


def check_rows(before, after, found):
    """Every difference has its row, in order, and nothing else has one."""
    expected = {}
    for entity in before.keys() | after.keys():
        old, new = before.get(entity), after.get(entity)
        if old is not None and (new is None or new.keys() != old.keys()):
            expected[entity, frozenset(old)] = (False, repr(old))
        if new is not None and repr(new) != repr(old):
            expected[entity, frozenset(new)] = (True, repr(new))
    written = {}
    for each in found.tables:
        ids = each.rows["entity_id"].to_pylist()
        assert ids == sorted(set(ids))
        for row in each.rows.to_pylist():
            entity, is_active = row.pop("entity_id"), row.pop("is_active")
            written[entity, frozenset(row)] = (is_active, repr(row))
    assert written == expected
    assert found.rows == len(expected)
    assert found.is_whole == (sum(is_active for is_active, _ in expected.values()) == len(after))
