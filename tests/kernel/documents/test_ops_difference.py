"""What is worked out between two values leads from one to the other, and is small where it can be."""

from __future__ import annotations

import copy

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from perdure.kernel.canonical import canonical, strict
from perdure.kernel.documents.content import delta
from perdure.kernel.documents.diff import difference
from perdure.kernel.documents.ops import applied

pytestmark = pytest.mark.stores

texts = st.text(st.sampled_from("ab\u00e9\U0001f600\ud83d\ude00"), max_size=5)
scalars = st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from([0.0, 1.0]) | texts
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["a", "b", "", "constructor"]), inner, max_size=3)
    ),
    max_leaves=10,
).map(lambda value: strict(canonical(value)))


@settings(max_examples=80, deadline=None)
@given(old=values, new=values)
@example(old={"constructor": {"a": 1}}, new={"constructor": {"a": 2}})
@example(old=[{"prototype": [1]}], new=[{"prototype": [2]}])
@example(old={"a": 1}, new={"a": True})
@example(old={"a": 1}, new={"a": 1.0})
@example(old={"a": 0.0}, new={"a": -0.0})
@example(old=[0.0, {"b": -0.0}], new=[-0.0, {"b": 0.0}])
@example(old=["\U0001f600x"], new=["\ude00x"])
@example(old=["x\ud83d"], new=["x\U0001f600"])
def test_operations_between_two_values_lead_from_one_to_the_other(old, new):
    before = copy.deepcopy((old, new))

    ops = delta(1, difference(old, new)).told

    assert canonical(applied(old, [ops])) == canonical(new)
    assert (ops == []) == (canonical(old) == canonical(new))
    assert (old, new) == before


REST = {"rest": "of a document that is long enough for operations to be shorter"}


@pytest.mark.parametrize(
    ("old", "new", "ops"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1}, {"a": 2}, [["s", ["a"], 2]]),
        ({"a": 1}, {"b": 1}, [["d", ["a"]], ["s", ["b"], 1]]),
        ({"a": "said"}, {"a": "said so"}, [["a", ["a"], " so"]]),
        ({"a": "\U0001f600said"}, {"a": "said"}, [["t", ["a"], 2]]),
        ({"a": "said"}, {"a": ""}, [["s", ["a"], ""]]),
        ({"a": [1, 2, 3]}, {"a": [1, 2, 3, 4]}, [["p", ["a"], 3, 0, [4]]]),
        ({"a": [1, 2, 3]}, {"a": [2, 3]}, [["p", ["a"], 0, 1, []]]),
        ({"a": [1, 2, 3]}, {"a": [1, 3]}, [["p", ["a"], 1, 1, []]]),
        ({"a": [1, {"b": 1}, 3]}, {"a": [1, {"b": 2}, 3]}, [["s", ["a", 1, "b"], 2]]),
        ({"a": {"constructor": 1}}, {"a": {"constructor": 2}}, [["s", ["a"], {"constructor": 2}]]),
        ({"a": {"b": []}}, {"a": {"b": {}}}, [["s", ["a", "b"], {}]]),
    ],
)
def test_a_small_edit_is_a_small_operation(old, new, ops):
    assert difference({**REST, **old}, {**REST, **new}) == ops


def test_what_is_new_altogether_is_replaced():
    assert difference({"a": 1, "b": 2, "c": 3}, {"d": 4}) == [["r", {"d": 4}]]
    assert difference({"constructor": 1}, {"constructor": 2}) == [["r", {"constructor": 2}]]
    assert difference([1], "text") == [["r", "text"]]
