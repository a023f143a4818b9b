"""What differs between two values is said in few operations, and they lead from one to the other."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.kernel.canonical import canonical
from perdure.kernel.documents.jobs.diff import ops_between
from perdure.kernel.documents.ops import applied, check_ops

pytestmark = pytest.mark.stores

NAMES = st.sampled_from(["a", "b", "c", "__proto__"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.floats(0, 1) | st.text("x😀y", max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=12,
)


@given(VALUES, VALUES)
def test_operations_lead_from_one_value_to_the_other(before, after):
    ops = ops_between(before, after)

    check_ops(ops)
    assert canonical(applied(before, [ops])) == canonical(after)
    assert (ops == []) == (canonical(before) == canonical(after))


@pytest.mark.parametrize(
    ("before", "after", "ops"),
    [
        ({"text": "ab"}, {"text": "abc"}, [["a", ["text"], "c"]]),
        ({"read": 1, "old": 2}, {"read": 2}, [["d", ["old"]], ["s", ["read"], 2]]),
        ({"list": [1, 2, 3]}, {"list": [1, 2, 3, 4]}, [["p", ["list"], 3, 0, [4]]]),
        ({"list": [1, 2, 3]}, {"list": [1, 3]}, [["p", ["list"], 1, 1, []]]),
        ({"list": [{"n": 1}, 2]}, {"list": [{"n": 3}, 2]}, [["s", ["list", 0, "n"], 3]]),
        ({"flag": 1}, {"flag": True}, [["s", ["flag"], True]]),
        (1, 2, [["r", 2]]),
    ],
    ids=str,
)
def test_what_differs_is_said_in_few_operations(before, after, ops):
    assert ops_between(before, after) == ops
