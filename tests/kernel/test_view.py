"""Views, and the conditions that follow from them."""

from __future__ import annotations

import pickle

import pytest

from perdure.authority.testing.records import HERE, NOTES, Counter, Note, Receipt, counter, note
from perdure.kernel.commit import Check, Put, Remove, derived
from perdure.kernel.errors import Contended
from perdure.kernel.ids import Token
from perdure.kernel.view import Key, Missing, Reads, Removed, Stored, Version, View, written

T = Token("t")
SEEN = Version(3, Token("before"))
ONE = Counter(partition=HERE, name="c", count=1)
TWO = Counter(partition=HERE, name="c", count=2)
OTHER = Note(partition=HERE, name="n", text="x")
HELD = Stored(SEEN, ONE.body())


def test_keys_are_equal_by_address_alone() -> None:
    key, same = Key(HERE, "s", Counter), Key(HERE, "s", Note)

    assert key == same
    assert len({key, same, Key(HERE, "other", Counter)}) == 2
    assert pickle.loads(pickle.dumps(key)).of is Counter


def test_what_was_not_loaded_is_missing_by_the_way_it_was_asked_for() -> None:
    view = View({})

    for ask, reads in (
        (lambda: view.get(ONE.key), Reads(keys=(ONE.key,))),
        (lambda: view.peek(ONE.key), Reads(peeks=(ONE.key,))),
        (lambda: view.find(NOTES), Reads(ranges=(NOTES,))),
    ):
        with pytest.raises(Missing) as missing:
            ask()
        assert missing.value.reads == reads
    assert not view.named


@pytest.mark.parametrize(
    ("stored", "asked", "writes", "actions"),
    [
        (None, "get", [ONE], [Put(ONE.key, None, ONE.body())]),
        (HELD, "get", [TWO], [Put(ONE.key, SEEN, TWO.body())]),
        (HELD, "peek", [TWO], [Put(ONE.key, SEEN, TWO.body())]),
        (HELD, None, [ONE, TWO], [Put(ONE.key, SEEN, TWO.body())]),
        (HELD, "get", [OTHER], [Put(OTHER.key, None, OTHER.body()), Check(ONE.key, SEEN)]),
        (None, "get", [OTHER], [Put(OTHER.key, None, OTHER.body()), Check(ONE.key, None)]),
        (HELD, "peek", [OTHER], [Put(OTHER.key, None, OTHER.body())]),
        (
            HELD,
            "get",
            [OTHER, Removed(ONE.key)],
            [Put(OTHER.key, None, OTHER.body()), Remove(ONE.key, SEEN)],
        ),
        (
            None,
            "get",
            [OTHER, Removed(ONE.key)],
            [Put(OTHER.key, None, OTHER.body()), Check(ONE.key, None)],
        ),
        (
            None,
            "peek",
            [OTHER, ONE, Removed(ONE.key)],
            [Put(OTHER.key, None, OTHER.body())],
        ),
        (HELD, "get", [Removed(ONE.key), TWO], [Put(ONE.key, SEEN, TWO.body())]),
    ],
)
def test_conditions_follow_from_the_view(
    stored: Stored | None, asked: str | None, writes: list, actions: list
) -> None:
    view = View({ONE.key: stored})
    if asked is not None:
        getattr(view, asked)(ONE.key)

    view.absorb(written(writes))

    assert list(derived(view, T).actions) == actions


def test_later_decisions_see_what_earlier_ones_wrote() -> None:
    view = View({ONE.key: HELD})

    view.absorb(written([TWO, OTHER]))

    assert view.get(ONE.key) == TWO
    assert view.get(OTHER.key) == OTHER
    view.merge(View({OTHER.key: None, counter("d"): None}))
    assert view.peek(OTHER.key) == OTHER
    assert view.peek(counter("d")) is None


def test_what_is_written_once_is_not_written_again() -> None:
    receipt = Receipt(partition=HERE, id="i", text="x", count=1)

    view = View({})
    view.absorb(written([receipt]))
    with pytest.raises(AssertionError):
        view.absorb(written([receipt]))


def test_what_is_written_once_and_there_already_was_seen_in_part() -> None:
    receipt = Receipt(partition=HERE, id="i", text="x", count=1)
    view = View({receipt.key: Stored(SEEN, receipt.body())})

    with pytest.raises(Contended):
        view.absorb(written([receipt]))

    assert not view.written


def test_what_is_loaded_first_stays() -> None:
    view = View({ONE.key: HELD}, named=[ONE.key])

    view.merge(View({ONE.key: None, note("a"): None}, named=[note("a")]))

    assert view.version(ONE.key) == SEEN
    assert list(view.named) == [ONE.key, note("a")]
    assert view.reads() == Reads(keys=(ONE.key, note("a")))


def test_two_loads_are_not_of_one_moment() -> None:
    view = View({})

    view.merge(View({ONE.key: HELD}, is_snapshot=True))
    first = view.is_snapshot
    view.merge(View({note("a"): None}, is_snapshot=True))

    assert (first, view.is_snapshot) == (True, False)


def test_what_is_loaded_beside_guesses_is_not_of_one_moment_with_them() -> None:
    view = View({}, guesses={ONE.key: (HELD, ONE)})

    view.merge(View({note("a"): None}, is_snapshot=True))

    assert not view.is_snapshot


def test_what_is_supplied_from_elsewhere_is_not_of_that_moment() -> None:
    view = View({ONE.key: HELD}, is_snapshot=True)

    view.supply({}, {})

    assert not view.is_snapshot


def test_the_union_of_reads_has_each_record_once() -> None:
    first = Reads(keys=(note("a"),), peeks=(note("b"), note("c")), ranges=(NOTES,))
    second = Reads(keys=(note("b"), note("a")), ranges=(NOTES,), snapshot=True)

    assert Reads.union(first, second) == Reads(
        keys=(note("a"), note("b")), peeks=(note("c"),), ranges=(NOTES,), snapshot=True
    )
