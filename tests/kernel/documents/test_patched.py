"""A value after operations that shares what they leave: as if it were copied, and nothing of it is."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.kernel.documents.errors import DeltaDoesNotApply
from perdure.kernel.documents.ops import applied, check_ops, patched

pytestmark = pytest.mark.stores

NAMES = st.sampled_from("ab")
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text("xy😀", max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=2),
    max_leaves=8,
)
PATHS = st.lists(NAMES | st.integers(0, 2), max_size=3)
PARENTS = st.lists(NAMES | st.integers(0, 2), min_size=1, max_size=3)
OPS = st.one_of(
    st.tuples(st.just("r"), VALUES),
    st.tuples(st.just("s"), PARENTS, VALUES),
    st.tuples(st.just("d"), PARENTS),
    st.tuples(st.just("a"), PARENTS, st.text("z", max_size=2)),
    st.tuples(st.just("t"), PARENTS, st.integers(0, 2)),
    st.tuples(
        st.just("p"),
        PATHS,
        st.integers(0, 2),
        st.integers(0, 2),
        st.lists(VALUES, max_size=2),
    ),
    st.tuples(st.just("m"), PATHS, st.permutations([0, 1])),
).map(list)


@given(VALUES, st.lists(OPS, max_size=4))
def test_sharing_comes_to_the_same_as_copying(value, ops):
    check_ops(ops)
    before = copy.deepcopy(value)
    try:
        expected = applied(value, [ops])
    except DeltaDoesNotApply:
        with pytest.raises(DeltaDoesNotApply):
            patched(value, ops)
    else:
        assert patched(value, ops) == expected

    assert value == before


def test_what_no_operation_touches_is_the_same_object():
    value = {"large": [1, 2, 3], "list": [{"n": 1}, {"n": 2}]}

    changed = patched(value, [["s", ["list", 0, "n"], 7]])

    assert changed == {"large": [1, 2, 3], "list": [{"n": 7}, {"n": 2}]}
    assert changed["large"] is value["large"]
    assert changed["list"][1] is value["list"][1]
