"""Real-time order: a history is refused if and only if no order explains it."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.proof.order import Step, first_place, misplaced, spans

pytestmark = pytest.mark.proof

PLACES = 5

times = st.tuples(st.integers(0, 9), st.integers(1, 5), st.booleans())
places = st.sets(st.integers(0, PLACES - 1), min_size=1)


@st.composite
def histories(draw):
    return [
        Step(f"{number}", begun, begun + lasting if is_heard else None, spans(sorted(where)))
        for number, ((begun, lasting, is_heard), where) in enumerate(
            draw(st.lists(st.tuples(times, places), min_size=1, max_size=4))
        )
    ]


def explained(steps):
    """Try every order there is."""
    choices = [
        [place for first, last in step.places for place in range(first, last + 1)] for step in steps
    ]
    return any(
        all(
            here <= there
            for step, here in zip(steps, chosen, strict=True)
            for other, there in zip(steps, chosen, strict=True)
            if step.returned_ns is not None and step.returned_ns < other.invoked_ns
        )
        for chosen in product(*choices)
    )


@settings(max_examples=200, derandomize=True, deadline=None)
@given(histories())
def test_a_history_is_refused_if_and_only_if_no_order_explains_it(steps):
    assert bool(misplaced(steps)) is not explained(steps)


def test_who_was_overtaken_is_named():
    first = Step("write", 0, 10, ((3, 3),))
    stale = Step("read", 20, 30, ((0, 2),))

    (found,) = misplaced([stale, first])

    assert str(found).startswith("read can only be at ((0, 2),), but was made after write")


def test_what_nobody_heard_of_bounds_nobody():
    unheard = Step("write", 0, None, ((3, 3),))
    read = Step("read", 20, 30, ((0, 2),))

    assert misplaced([unheard, read]) == []


def test_places_are_spans_that_are_looked_through():
    assert spans([0, 1, 4, 6, 7]) == ((0, 1), (4, 4), (6, 7))
    assert [first_place(((0, 1), (4, 4)), least) for least in range(6)] == [0, 1, 4, 4, 4, None]
