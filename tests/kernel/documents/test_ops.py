"""Operations of a delta: as the reference has them, but that texts are counted in UTF-16 units."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pi_durable import delta as reference

from perdure.kernel.canonical import canonical, strict
from perdure.kernel.documents.content import LEVELS_MAX, base, delta
from perdure.kernel.documents.errors import DeltaDoesNotApply, InvalidDelta
from perdure.kernel.documents.ops import applied, check_ops, joined, without_front
from perdure.kernel.errors import InvalidValue, PerdureError, TooLarge

pytestmark = pytest.mark.stores

SOME = settings(max_examples=80, deadline=None)

names = st.sampled_from(["a", "b", "", "constructor"])
scalars = st.none() | st.booleans() | st.integers(-9, 9) | st.text("xyz", max_size=4)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "b", ""]), inner, max_size=3)
    ),
    max_leaves=8,
)
counts = st.integers(-1, 4)
paths = st.lists(st.sampled_from(["a", "b", "", 0, 1, 2]), max_size=3)
odd_paths = st.lists(names | counts | st.sampled_from([True, 1.0, None]), max_size=3)
ops = st.one_of(
    st.tuples(st.just("r"), values),
    st.tuples(st.just("s"), paths, values),
    st.tuples(st.just("d"), paths),
    st.tuples(st.just("a"), paths, st.text("xyz", max_size=2)),
    st.tuples(st.just("t"), paths, counts),
    st.tuples(st.just("p"), paths, counts, counts, st.lists(values, max_size=2)),
    st.tuples(st.just("m"), paths, st.permutations([0, 1, 2]).map(list)),
    st.tuples(st.sampled_from("rsdatpmz"), odd_paths, values),
    st.tuples(st.sampled_from("rsdatpm"), odd_paths),
).map(list)


def places_in(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[list[Any], Any]]:
    """Yield every path of a value, with what lies there."""
    yield list(path), value
    if isinstance(value, dict | list):
        for name, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places_in(inner, (*path, name))


@st.composite
def fitting(draw: Callable[..., Any], value: Any) -> list[Any]:
    """Draw an operation that ``value`` takes."""
    path, found = draw(st.sampled_from(list(places_in(value))))
    fits = [st.tuples(st.just("r"), values)]
    if path:
        fits += [
            st.tuples(st.just("s"), st.just(path), values),
            st.tuples(st.just("d"), st.just(path)),
        ]
    if isinstance(found, dict):
        fits.append(st.tuples(st.just("s"), st.just([*path, "new"]), values))
    if isinstance(found, list):
        order = st.permutations(range(len(found))).map(list)
        items = st.lists(values, max_size=2)
        fits += [
            st.tuples(st.just("m"), st.just(path), order),
            st.tuples(st.just("p"), st.just(path), st.integers(0, 4), st.integers(0, 4), items),
            st.tuples(st.just("s"), st.just([*path, len(found)]), values),
        ]
    if isinstance(found, str) and path:
        fits += [
            st.tuples(st.just("a"), st.just(path), st.text("xyz", max_size=2)),
            st.tuples(st.just("t"), st.just(path), st.integers(0, 5)),
        ]
    return list(draw(st.sampled_from(fits[::-1]).flatmap(lambda each: each)))


@st.composite
def cases(draw: Callable[..., Any]) -> tuple[Any, list[Any]]:
    """Draw a value and operations, most of which fit what those before them have made of it."""
    value = draw(values)
    batch: list[Any] = []
    reached = value
    for _ in range(draw(st.integers(1, 4))):
        batch.append(draw(ops) if draw(st.integers(0, 5)) == 0 else draw(fitting(reached)))
        reached = outcome_of_reference(value, batch)
        if reached in ("invalid_delta", "delta_does_not_apply"):
            break
    return value, batch


def outcome(value: Any, batch: list[Any]) -> Any:
    """Return what operations make of a value, or the code of their refusal."""
    try:
        check_ops(batch)
        return applied(value, [batch])
    except PerdureError as error:
        return error.code


def outcome_of_reference(value: Any, batch: list[Any]) -> Any:
    try:
        for op in batch:
            reference.assert_valid_op(op)
    except (TypeError, reference.UnsafePathError):
        return "invalid_delta"
    root = copy.deepcopy(value)
    try:
        for op in batch:
            root = reference.apply(root, [_as_meant(root, op)])
    except Exception:  # noqa: BLE001  # whatever it raises
        return "delta_does_not_apply"
    return root


def _as_meant(root: Any, op: list[Any]) -> list[Any]:
    """Spell two operations otherwise, in which the reference is not what its format says.

    Setting the place behind a list's last appends, and a number names nothing in an object.
    """
    if op[0] not in ("s", "d", "a", "t"):
        return op
    parent, last = root, op[1][-1]
    for segment in op[1][:-1]:
        parent = parent[segment]
    if isinstance(parent, dict) and not isinstance(last, str):
        raise KeyError(last)
    if op[0] == "s" and isinstance(parent, list) and last == len(parent):
        return ["p", op[1][:-1], last, 0, [op[2]]]
    return op


@SOME
@given(case=cases())
@example(case=({"a": [1]}, [["s", ["a", 1], 2]]))
@example(case=({"a": 1}, [["s", [0], 2]]))
@example(case=([1], [[["a"], 1]]))
@example(case=({"a": "xy"}, [["t", ["a"], True]]))
@example(case=([], [["p", [], 5, 5, [1]]]))
@example(case=([1, 2, 3], [["m", [], [2, 0, 1]]]))
def test_operations_do_what_the_reference_does(case):
    value, batch = case
    before = copy.deepcopy((value, batch))

    found = outcome(value, batch)

    assert found == outcome_of_reference(value, batch)
    assert (value, batch) == before


def units(text: str) -> list[int]:
    """Return the UTF-16 units of a text, worked out from the code points."""
    found = []
    for character in text:
        point = ord(character)
        if point < 0x10000:
            found.append(point)
        else:
            found += [0xD800 + ((point - 0x10000) >> 10), 0xDC00 + ((point - 0x10000) & 0x3FF)]
    return found


texts = st.text(st.sampled_from("a\u00e9\U0001f600\U0001f468\ud83d\ude00"), max_size=5)


@SOME
@given(text=texts.map(lambda text: strict(canonical(text))), count=st.integers(0, 8))
def test_a_front_is_cut_by_utf_16_units(text, count):
    left = without_front(text, count)

    assert units(left) == units(text)[count:]


def test_an_astral_character_has_two_units():
    assert applied({"t": "\U0001f600x"}, [[["t", ["t"], 2]]]) == {"t": "x"}
    assert applied({"t": "\U0001f600x"}, [[["t", ["t"], 1]]]) == {"t": "\ude00x"}


@SOME
@given(text=texts, more=texts)
def test_what_is_appended_reads_as_it_was_spelled(text, more):
    text, more = (strict(canonical(each)) for each in (text, more))

    whole = joined(text, more)

    assert whole == strict(canonical(text + more))
    assert applied([text], [[["a", [0], more]]]) == [whole]


@pytest.mark.parametrize("segment", ["__proto__", "constructor", "prototype"])
@pytest.mark.parametrize(
    "op", [["s", ["SEGMENT"], 1], ["d", ["a", "SEGMENT"]], ["p", ["SEGMENT", 0], 0, 0, []]]
)
def test_a_segment_that_reaches_behind_an_object_is_refused(segment, op):
    unsafe = [[segment if each == "SEGMENT" else each for each in part] for part in op[1:2]]

    with pytest.raises(InvalidDelta) as raised:
        delta(1, [[op[0], *unsafe, *op[2:]]])

    assert raised.value.code == "invalid_delta"
    assert segment in raised.value.found


@pytest.mark.parametrize(
    "ops",
    [None, {}, "r", [None], [[]], [["r"]], [["z", []]], [[1, []]], [["s", [], 1]], [["d", "a"]]],
)
def test_what_is_no_list_of_operations_is_refused(ops):
    with pytest.raises(InvalidDelta):
        delta(1, ops)


def test_an_operation_that_does_not_fit_says_which():
    with pytest.raises(DeltaDoesNotApply) as raised:
        applied({"a": 1}, [[["s", ["b"], 1]], [["a", ["a"], "x"]]])

    assert raised.value.code == "delta_does_not_apply"
    assert "['a', ['a'], 'x']" in raised.value.expected


def test_nothing_is_shared_between_what_goes_in_and_what_comes_out():
    value, item, rows = {"a": [1]}, {"deep": [1]}, [["row"]]
    ops = [["s", ["b"], item], ["p", ["a"], 0, 0, rows], ["s", ["c"], item]]
    made = delta(1, ops)
    of_value = base(1, value)

    found = applied(value, [ops])
    found["b"]["deep"].append(2)
    found["a"][0].append(2)
    value["a"].append(9)
    item["deep"].append(9)
    rows[0].append(9)
    ops.append(["d", ["a"]])

    assert found["c"] == {"deep": [1]}
    assert found["a"] == [["row", 2], 1]
    assert made.told[0] == ["s", ["b"], {"deep": [1]}]
    assert len(made.told) == 3
    assert of_value.told == {"a": [1]}
    assert made.told is not made.told


def nested(levels: int) -> Any:
    value: Any = 1
    for number in range(levels):
        value = [value] if number % 2 else {"a": value}
    return value


def path_into(levels: int) -> list[Any]:
    return [0 if number % 2 else "a" for number in reversed(range(levels))]


def test_content_is_nested_as_deep_as_every_reader_follows():
    assert base(1, nested(LEVELS_MAX)).told == nested(LEVELS_MAX)
    for make in (
        lambda: base(1, nested(LEVELS_MAX + 1)),
        lambda: delta(1, [["r", nested(LEVELS_MAX + 1)]]),
        lambda: delta(1, [["s", path_into(LEVELS_MAX), [1]]]),
        lambda: delta(1, [["p", path_into(LEVELS_MAX), 0, 0, []]]),
    ):
        with pytest.raises(TooLarge):
            make()


def test_the_deepest_content_can_be_edited_at_its_deepest():
    value = nested(LEVELS_MAX)

    made = delta(1, [["s", path_into(LEVELS_MAX), 2]])

    assert applied(value, [made.told]) != value


def endless() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


@pytest.mark.parametrize("value", [float("nan"), {1, 2}, {"a": b""}, {1: 1, "1": 2}, endless()])
def test_what_no_json_can_say_is_refused(value):
    with pytest.raises(InvalidValue):
        base(1, value)


@pytest.mark.parametrize("version", [0, -1, True, "1", 1.0, None])
def test_a_version_is_a_number_from_one(version):
    with pytest.raises(InvalidValue):
        base(version, {})


def test_content_has_a_greatest_size():
    with pytest.raises(TooLarge):
        base(1, "x" * 4_194_304)
