"""Commands that are alike are held as columns: the same state, verdicts and rows as one by one."""

from __future__ import annotations

import pytest
from tests.lake.worldlings import REGISTRY, add, contents, despawn, remove, spawn, update

from perdure.lake.staging import ALIKE_MIN, Staging
from perdure.lake.state import EMPTY

pytestmark = pytest.mark.proof

MANY = 3 * ALIKE_MIN


def spawns(count=MANY, *, first=1, velocity=True):
    held = {"Velocity": {"dx": 0.5}} if velocity else {}
    return [
        spawn(first + n, first + n, Position={"x": n / 7, "y": -0.0}, **held) for n in range(count)
    ]


def one_by_one(commands, before):
    """Apply each command by itself: of one command, nothing is held as columns."""
    staging = Staging(before, REGISTRY)
    results = [staging.apply([each], stop_on_retryable=False) for each in commands]
    return staging.state(), [told(each) for each in results]


def told(result):
    return [result.applied, result.rejected, result.retryable, result.not_reached]


def check(commands, before=EMPTY):
    staging = Staging(before, REGISTRY)
    together = told(staging.apply(commands, stop_on_retryable=False))
    expected, results = one_by_one(commands, before)
    assert together == [[each for one in results for each in one[part]] for part in range(4)]
    state = staging.state()
    assert repr(contents(state)) == repr(contents(expected))
    for table, archetype in state.archetypes.items():
        assert archetype.rows.equals(expected.archetypes[table].rows)
    return state


def populated():
    return check([*spawns(), *spawns(first=1_000, velocity=False)])


LATER = 5_000
"""Sequences from here on; entities of `populated` are 1 to MANY, and as many from 1,000."""

EVERYBODY = [*range(1, MANY + 1), *range(1_000, 1_000 + MANY)]


@pytest.mark.parametrize(
    "commands",
    [
        [update(LATER + e, e, Position={"x": 1.0 * e, "y": 2.0}) for e in EVERYBODY],
        [update(LATER + e, e, Velocity={"dx": 1.0 * e}) for e in EVERYBODY],
        [update(LATER + e, e) for e in EVERYBODY],
        [despawn(LATER + e, e) for e in reversed(EVERYBODY)],
        [despawn(LATER + e, e) for e in range(1, 2 * MANY)],
        [add(LATER + e, e, Velocity={"dx": 9.0}) for e in EVERYBODY],
        [remove(LATER + e, e, "Velocity") for e in EVERYBODY],
        [
            *(update(LATER + e, e, Position={"x": 1.0, "y": 2.0}) for e in EVERYBODY),
            *(update(LATER + 2_000 + e, e, Velocity={"dx": 7.0}) for e in EVERYBODY[:MANY]),
            despawn(LATER + 9_000, 2),
        ],
        [
            *(despawn(LATER + e, e) for e in EVERYBODY),
            *(
                spawn(LATER + 2_000 + e, e, Label={"text": "é", "rank": e, "is_new": True})
                for e in EVERYBODY
            ),
            update(LATER + 9_000, 5, Label={"text": None, "rank": 1, "is_new": False}),
        ],
        [spawn(LATER + e, 9_000 - e, Position={"x": 0.0, "y": 1.0 * e}) for e in EVERYBODY],
        [spawn(LATER + e, 9_000 + e, Fragile={"strength": e % 40}) for e in EVERYBODY],
        [
            spawn(LATER + e, 9_000 + e, Position={"x": e if e == 50 else 1.0, "y": 2.0})
            for e in EVERYBODY
        ],
        [spawn(LATER + e, 9_000 + e % 50, Position={"x": 1.0, "y": 2.0}) for e in EVERYBODY],
        [spawn(LATER + e, e + 10, Position={"x": 1.0, "y": 2.0}) for e in EVERYBODY],
    ],
)
def test_commands_held_as_columns_do_what_they_do_one_by_one(commands):
    before = populated()

    check(commands, before)


def test_what_came_as_columns_in_one_part_is_changed_one_by_one_in_the_next():
    first, second = spawns(), [update(LATER + e, e, Velocity={"dx": 3.0}) for e in (1, 7, MANY)]

    staging = Staging(EMPTY, REGISTRY)
    staging.apply(first)
    between = staging.state()
    staging.apply([*second, *spawns(first=2_000)])

    expected, _ = one_by_one([*first, *second, *spawns(first=2_000)], EMPTY)
    assert contents(staging.state()) == contents(expected)
    assert contents(between) == contents(one_by_one(first, EMPTY)[0])
