"""Ranges agree with sets of numbers."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.kernel import ranges

numbers = st.sets(st.integers(0, 40))
few = settings(max_examples=60, deadline=None)


@few
@given(numbers, numbers, st.integers(-1, 41))
def test_ranges_are_sets(left, right, at):
    a, b = ranges.ranges(left), ranges.ranges(right)

    assert list(ranges.members(a)) == sorted(left)
    assert ranges.size(a) == len(left)
    assert ranges.contains(a, at) is (at in left)
    assert ranges.union(a, b) == ranges.ranges(left | right)
    assert ranges.difference(a, b) == ranges.ranges(left - right)
    assert ranges.common(a, b) == ranges.ranges(left & right)
    assert ranges.covers(a, b) is (right <= left)
    assert ranges.from_sequence(a, at) == ranges.ranges(each for each in left if each >= at)


@few
@given(st.lists(numbers, max_size=4))
def test_a_union_takes_in_any_number(many):
    assert ranges.union(*map(ranges.ranges, many)) == ranges.ranges(set().union(*many))


def test_neighbours_are_one_range():
    assert ranges.ranges([3, 1, 2, 7]) == ((1, 3), (7, 7))
    assert ranges.union(((1, 3),), ((4, 5),)) == ((1, 5),)
