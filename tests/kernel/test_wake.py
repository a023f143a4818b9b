"""Wake hints: lowered by whoever has something to do, raised only by who looks."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.worldly import WORLD, World

from perdure.kernel.ids import Instant
from perdure.kernel.places import MINUTE_MS, wake_sort
from perdure.kernel.upkeep import Wake
from perdure.kernel.view import Key, Missing, View
from perdure.kernel.wake import woken

MINUTE = MINUTE_MS


def view_with(*hints):
    keys = {hint.key: hint for hint in hints}
    view = View(
        dict.fromkeys(
            Key(WORLD.wake, wake_sort(Instant(m * MINUTE), WORLD), Wake) for m in range(20)
        )
    )
    view.absorb(dict(keys))
    return view


def hint(minute):
    at = Instant(minute * MINUTE)
    return Wake(
        partition=WORLD.wake,
        sort=wake_sort(at, WORLD),
        storage=WORLD.storage,
        world=WORLD.world,
        at=at,
    )


@pytest.mark.parametrize(
    ("wake_at", "at", "verdict"),
    [
        (None, 5 * MINUTE, "lowered"),
        (9 * MINUTE, 5 * MINUTE, "lowered"),
        (6 * MINUTE, 6 * MINUTE - 1, "lowered"),
        (5 * MINUTE + 59_999, 5 * MINUTE, "kept"),
        (5 * MINUTE, 5 * MINUTE + 1, "kept"),
        (4 * MINUTE, 5 * MINUTE, "kept"),
        (0, 5 * MINUTE, "kept"),
    ],
)
def test_a_wake_is_lowered_to_an_earlier_minute_and_never_raised(wake_at, at, verdict):
    head = replace(World().head, wake_at=wake_at)

    after, hints = woken(view_with(), head, WORLD, Instant(at))

    assert (after.wake_at == at) is (verdict == "lowered")
    assert (after == head) is (verdict == "kept")
    assert [each.at for each in hints] == ([at] if verdict == "lowered" else [])


def test_a_hint_that_lies_there_already_is_not_written_again():
    head = replace(World().head, wake_at=None)

    after, hints = woken(view_with(hint(5)), head, WORLD, Instant(5 * MINUTE))

    assert (after.wake_at, hints) == (5 * MINUTE, ())


def test_the_place_of_a_hint_is_named_before_it_is_written():
    head = replace(World().head, wake_at=None)

    with pytest.raises(Missing) as raised:
        woken(View({}), head, WORLD, Instant(5 * MINUTE))

    assert raised.value.reads.keys == (hint(5).key,)
